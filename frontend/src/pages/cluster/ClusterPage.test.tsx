import { screen, within } from "@testing-library/react";
import { expect, it } from "vitest";
import type { Cluster, Part } from "@/api/deployment";
import { load, serverFor } from "@/testing/page";

const AT = new Date().toISOString();
const part: Part = { state: "up", confirmed_at: AT, problem: "", took_ms: 1 };
const cluster: Cluster = {
  at: AT,
  process_word_seconds: 15,
  web: [],
  workers: [],
  schedulers: [],
  jobs: { ...part, state: "down", problem: "jobs do not run: no heartbeats from the scheduler" },
  exits: [
    {
      part: "ray",
      host: "gpu-1",
      exits: 3,
      first_at: AT,
      last_at: AT,
      reason: "ray ended (signal SIGKILL)",
      log: "out of \u202ememory",
    },
    { part: "beat", host: "gpu-1", exits: 1, first_at: AT, last_at: AT, reason: "beat ended (exit code 2)", log: null },
  ],
  ray: { ...part, address: null, nodes: [] },
  database: part as Cluster["database"],
  broker: part as Cluster["broker"],
  storage: { ...part, kind: "files", keep_free_bytes: 0 } as Cluster["storage"],
  placements: [],
  cordons: [],
  versions: {},
};

it("shows why the jobs do not run, and why parts exited", async () => {
  serverFor().tell("cluster_admin", { cluster });
  await load("/cluster");

  const table = within(await screen.findByRole("table", { name: "Exits" }));
  expect(screen.getAllByText(/jobs do not run: no heartbeats from the scheduler/)[0]).toBeVisible();
  const [, ray, beat] = table.getAllByRole("row");
  expect(ray).toHaveTextContent(/ray gpu-1.*3 since \d\d:\d\d.*ray ended \(signal SIGKILL\)Last lines of the log/);
  expect(ray).toHaveTextContent("out of ⟨U+202E⟩memory");
  expect(beat).toHaveTextContent(/beat gpu-1.*beat ended \(exit code 2\)$/);
  expect(beat).not.toHaveTextContent("since");
});

it("shows no table of exits without any", async () => {
  serverFor("viewer").tell("cluster", { cluster: { ...cluster, exits: [] } });
  await load("/cluster");

  expect((await screen.findAllByText(/jobs do not run/))[0]).toBeVisible();
  expect(screen.queryByRole("table", { name: "Exits" })).toBeNull();
});
