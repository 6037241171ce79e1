import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { expect, it } from "vitest";
import { alertOf, groupOf, summaryOf } from "@/testing/alerts";
import { here, load, serverFor } from "@/testing/page";
import { listOf, runOf } from "@/testing/runs";

const strip = async () => within(await screen.findByRole("region", { name: "Needs attention" }));

it("names the newest alert and a run that is paused for long above the list of runs", async () => {
  const alert = alertOf(7, "bytes of alerted are corrupt", { run: "alerted", severity: "error" });
  const summary = summaryOf({ errors: 1, warnings: 3, newest: [alert], groups: [groupOf(alert, 4)] });
  const held = runOf("held", { status: "paused", status_reason: "the cluster moves", status_changed_at: "2026-01-01T00:00:00Z" });
  serverFor()
    .on("GET", "/api/v1/runs", listOf([runOf("alerted", { id: 8 }), held]))
    .tell("runs", { active: [{ ...held, environment: null }], resting: [], heartbeats: [] })
    .tell("alerts", { alerts: summary });
  await load("/");
  await waitFor(() => expect(here()).toBe("/runs"));
  const shown = await strip();
  expect(await shown.findByRole("link", { name: /^held: paused for .*: the cluster moves/ })).toBeVisible();
  expect(shown.getByRole("link", { name: "Alerts: 4 open" })).toBeVisible();
  expect(await screen.findByRole("link", { name: "alerted" })).toBeVisible();
  fireEvent.click(shown.getByRole("link", { name: "bytes of alerted are corrupt" }));
  await waitFor(() => expect(here()).toBe("/alerts?alert=7"));
});

it("shows the first steps on an empty server", async () => {
  serverFor().on("GET", "/api/v1/runs", listOf([])).tell("alerts", { alerts: summaryOf() });
  await load("/runs");
  expect(await (await strip()).findByText("✓ Nothing needs your attention.")).toBeVisible();
  expect(await screen.findByRole("region", { name: "Load example runs" })).toHaveTextContent("make example-runs");
  expect(screen.getByRole("link", { name: "Get a token" })).toBeVisible();
  fireEvent.click(screen.getByRole("link", { name: "Launch CartPole" }));
  await waitFor(() => expect(here()).toBe("/runs/new?preset=cartpole"));
});
