import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import type { paths } from "@/api/schema";
import { load, serverFor } from "@/testing/page";
import { addRun, NO_LOSSES, runOf } from "@/testing/runs";
import description from "../../../docs/reference/openapi.json?raw";

type Schema = { $ref?: string; properties?: Record<string, unknown> };
type Operation = { responses: Record<string, { content?: Record<string, { schema: Schema }> }> };
const openapi: { paths: Record<string, { get?: Operation }>; components: { schemas: Record<string, Schema> } } = JSON.parse(description);

/** The addresses of lists. */
const LISTS = Object.entries(openapi.paths).flatMap(([path, { get }]) => {
  const name = get?.responses["200"]?.content?.["application/json"]?.schema.$ref?.split("/").at(-1) ?? "";
  return openapi.components.schemas[name]?.properties?.results ? [path as keyof paths] : [];
});

/** A server without data: all lists are empty. */
function emptyServer() {
  const server = serverFor();
  for (const path of LISTS) server.on("GET", path, { results: [], next: null, total: 0, groups: [], names: [], events: [] } as never);
  const counts = { accepted: 0, queued: 0, waiting: 0, leased: 0, served: 0, quarantined: 0, dropped: {}, balanced: true };
  const ledger = { groups: counts, fragments: counts, sequences: counts, expired: 0, truncated: 0, ...NO_LOSSES, refused: 0, problem: "" };
  server
    .on("GET", "/api/v1/runs/{run}/metrics/lines", { lines: [] } as never)
    .on("GET", "/api/v1/runs/{run}/mixing", { batch_size: null, dry_deadline_seconds: null, environments: [] })
    .on("GET", "/api/v1/runs/{run}/ledger", { ...ledger, environments: [], audited_at: null })
    .on("GET", "/api/v1/runs/{run}/queue", {
      at: new Date().toISOString(),
      unit: "sequences",
      queued: 0,
      queued_sequences: 0,
      waiting: 0,
      leased: 0,
      leased_sequences: 0,
      size_bytes: 0,
      batch_size: 32,
      threshold: 96,
      resume_at: 48,
      paused: false,
      gates: [],
      since: null,
      set_by: null,
      trained_per_second: null,
      resumes_in_seconds: null,
      environments: [],
      served_steps: 0,
      ledger,
      next_batch: null,
    });
  addRun(server, runOf("far", { kind: "outside" }));
  addRun(server, runOf("pole", { kind: "fleet", policy_step: -2, num_workers: 2 }));
  addRun(server, runOf("over", { kind: "fleet", policy_step: 3, status: "stopped", allowed_verbs: ["start"] }));
  addRun(server, runOf("words", { kind: "language", policy_step: -2 }));
  return server;
}

/** Address, title of the empty view, and the command or the link that leads on. */
const PLACES: [string, string, RegExp][] = [
  ["/trajectories", "No samples yet", /^make demo$/],
  ["/trajectories?q=env:maze", "No matching groups", /Clear filter/],
  ["/compare", "No runs selected", /Choose from the list/],
  ["/environments", "No matching environments", /ROLLDECK_ENVIRONMENTS=/],
  ["/alerts", "No open alerts", /ROLLDECK_ALERT_WEBHOOKS=/],
  ["/alerts?kind=rule", "No matching alerts", /All alerts/],
  ["/tokens", "No tokens yet", /rolldeck token create/],
  ["/runs/far/trajectories", "No samples yet", /curl -X POST .*scored_data/],
  ["/runs/pole/trajectories", "No fragments yet", /examples\/ppo_cartpole|register/],
  ["/runs/pole/trajectories?kind=episode", "No episodes yet", /examples\/ppo_cartpole|register/],
  ["/runs/words/trajectories", "No samples yet", /curl -X POST .*start/],
  ["/runs/far/queue", "No batches leased yet", /register/],
  ["/runs/far/queue?state=leased", "No batches in this state", /Batches in all states/],
  ["/runs/far/environments", "No data from environments yet", /atropos/i],
  ["/runs/pole/environments", "No data from environments yet", /examples\/ppo_cartpole|register/],
  ["/runs/far/fleet", "No fleet", /atropos/i],
  ["/runs/pole/fleet", "No workers yet", /examples\/ppo_cartpole|register/],
  ["/runs/over/fleet", "No workers", /rolldeck run start over/],
  ["/runs/pole/weights", "No weights published yet", /examples\/ppo_cartpole|register/],
  ["/runs/far/config", "This run has no stored configuration", /register/],
  ["/runs/far/logs", "No events yet", /register/],
  ["/runs/far/curriculum", "This run has no lessons", /Launch a run with lessons/],
  ["/runs/nowhere", "No run named nowhere", /All runs/],
];

describe("an empty view names the command or action that fills it", () => {
  it.each(PLACES)("%s: %s", async (address, title, remedy) => {
    const server = emptyServer();
    server.refuse("run:nowhere", "not_found", "No run named nowhere.");
    await load(address);
    const found = await screen.findByRole("heading", { name: title }, { timeout: 10_000 });
    const empty = found.closest<HTMLElement>("[data-empty]");
    expect(empty).not.toBeNull();
    const isThere = () => {
      const places = [...(empty as HTMLElement).querySelectorAll("code, pre, a, button")];
      expect(places.map(({ textContent }) => textContent).filter((text) => remedy.test(text ?? ""))).not.toEqual([]);
    };
    await waitFor(isThere);
    expect(within(empty as HTMLElement).getAllByText(/\w/).length).toBeGreaterThan(1);
  });
});
