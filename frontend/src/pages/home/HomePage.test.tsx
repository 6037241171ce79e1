import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { expect, it } from "vitest";
import { alertOf, groupOf, summaryOf } from "@/testing/alerts";
import { here, load, serverFor } from "@/testing/page";
import { listOf, runOf } from "@/testing/runs";

it("groups the alerts of a kind behind the newest one", async () => {
  const severe = alertOf(1, "bytes of alerted are corrupt", { run: "alerted", severity: "error" });
  const others = [0, 1, 2].map((part) => alertOf(part + 2, `part ${part} of alerted is corrupt`, { run: "alerted" }));
  const summary = summaryOf({ errors: 1, warnings: 3, newest: [severe], groups: [{ ...severe, count: 4, runs: ["alerted"] }] });
  serverFor()
    .on("GET", "/api/v1/runs", ({ query }) => listOf(query.get("q") ? [] : [runOf("alerted")]))
    .on("GET", "/api/v1/alerts", { results: [severe, ...others].map((one) => groupOf(one)), next: null, summary })
    .tell("alerts", { alerts: summary });
  const user = await load("/");
  const attention = within(await screen.findByRole("region", { name: "Needs attention" }));
  expect(attention.getByText("bytes of alerted are corrupt")).toBeVisible();
  const shown = () => screen.queryAllByText(/part \d of alerted is corrupt/);
  expect(shown()).toHaveLength(0);

  await user.click(attention.getByRole("button", { name: "3 more alerts of this kind" }));
  await waitFor(() => expect(shown()).toHaveLength(3));
  await user.keyboard("{Enter}");
  await waitFor(() => expect(shown()).toHaveLength(0));
});

it("shows the first steps on an empty server", async () => {
  serverFor().on("GET", "/api/v1/runs", listOf([])).tell("alerts", { alerts: summaryOf() });
  await load("/");
  expect(await screen.findByRole("region", { name: "Load example runs" })).toHaveTextContent("make example-runs");
  expect(screen.getByRole("link", { name: "Get a token" })).toBeVisible();
  fireEvent.click(screen.getByRole("link", { name: "Launch CartPole" }));
  await waitFor(() => expect(here()).toBe("/runs/new?preset=cartpole"));
});
