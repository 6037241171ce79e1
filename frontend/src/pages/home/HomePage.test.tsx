import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { expect, it } from "vitest";
import type { AlertRow } from "@/api/alerts";
import { here, load, serverFor } from "@/testing/page";
import { listOf, runOf } from "@/testing/runs";

function alertOf(id: number, message: string, severity: AlertRow["severity"] = "warning"): AlertRow {
  const now = new Date().toISOString();
  return {
    ...{
      id,
      kind: "items_corrupt",
      title: "Stored bytes are corrupt",
      advice: "Discard the batch.",
      severity,
      state: "open",
      run: "alerted",
    },
    ...{ is_simulated: false, subject: "", metric: "", message, first_seen_at: now, last_seen_at: now, times_seen: 1, cleared_at: null },
    ...{ acknowledged_at: null, acknowledged_by: "", acknowledged_reason: "", resolved_at: null, resolved_by: "", resolved_reason: "" },
    silenced_until: null,
  };
}

it("groups the alerts of a run behind the most severe one", async () => {
  const severe = alertOf(1, "bytes of alerted are corrupt", "error");
  const others = [0, 1, 2].map((part) => alertOf(part + 2, `part ${part} of alerted is corrupt`));
  const summary = { errors: 1, warnings: 3, acknowledged: 0, silenced: 0, newest: [severe], groups: [{ alert: severe, count: 4 }] };
  serverFor()
    .on("GET", "/api/v1/runs", ({ query }) => listOf(query.get("q") ? [] : [runOf("alerted")]))
    .on("GET", "/api/v1/alerts", { results: [severe, ...others], next: null, summary })
    .tell("alerts", { alerts: summary });
  const user = await load("/");
  const attention = within(await screen.findByRole("region", { name: "Needs attention" }));
  expect(attention.getByText("bytes of alerted are corrupt")).toBeVisible();
  const shown = () => screen.queryAllByText(/part \d of alerted is corrupt/);
  expect(shown()).toHaveLength(0);

  await user.click(attention.getByRole("button", { name: "3 more alerts of alerted" }));
  await waitFor(() => expect(shown()).toHaveLength(3));
  await user.keyboard("{Enter}");
  await waitFor(() => expect(shown()).toHaveLength(0));
});

it("shows the first steps on an empty server", async () => {
  const nothing = { errors: 0, warnings: 0, acknowledged: 0, silenced: 0, newest: [], groups: [] };
  serverFor().on("GET", "/api/v1/runs", listOf([])).tell("alerts", { alerts: nothing });
  await load("/");
  expect(await screen.findByRole("region", { name: "Load demo data" })).toHaveTextContent("make seed");
  expect(screen.getByRole("link", { name: "Get a token" })).toBeVisible();
  fireEvent.click(screen.getByRole("link", { name: "Launch CartPole" }));
  await waitFor(() => expect(here()).toBe("/runs/new?preset=cartpole"));
});
