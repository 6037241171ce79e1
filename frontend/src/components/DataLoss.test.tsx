import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { expect, it } from "vitest";
import type { AlertSummary } from "@/api/alerts";
import { alertOf, groupOf, summaryOf } from "@/testing/alerts";
import { load, serverFor } from "@/testing/page";
import { addRun, listOf, runOf } from "@/testing/runs";

const MESSAGE = "lossy: 1,800 of the newest 2,000 groups were dropped on arrival as `future`";
const LOST = alertOf(5, MESSAGE, { kind: "stale_drops", run: "lossy", title: "Much data is dropped" });
const SUMMARY = summaryOf({ warnings: 1, newest: [LOST], groups: [groupOf(LOST)] });

function lossyServer(role: "admin" | "viewer" = "admin", alerts = [LOST], summary: AlertSummary = SUMMARY) {
  const server = serverFor(role);
  addRun(server, runOf("lossy"));
  return server
    .on("GET", "/api/v1/runs", listOf([runOf("lossy")]))
    .on("GET", "/api/v1/alerts", { results: alerts.map((alert) => groupOf(alert)), next: null, summary })
    .tell("alerts", { alerts: summary });
}

const strip = async () => within(await screen.findByRole("region", { name: "Loss of data" }));

it.each(["/", "/runs/lossy", "/runs/lossy/metrics", "/runs/lossy/trajectories", "/trajectories", "/compare?runs=lossy"])(
  "stands first on %s, once",
  async (address) => {
    lossyServer();
    await load(address);
    expect((await strip()).getByRole("link", { name: MESSAGE })).toHaveAttribute("href", "/alerts?alert=5");
    await waitFor(() => expect(screen.getAllByText(MESSAGE)).toHaveLength(1));
    expect(document.querySelector("main :is(section, table, [role=region])")).toHaveAccessibleName("Loss of data");
  },
);

it("ends when a user acknowledges it", async () => {
  const server = lossyServer().on("POST", "/api/v1/alerts/{alert}/acknowledge", () => {
    server.tell("alerts", { alerts: summaryOf({ acknowledged: 1 }) });
    return { ...LOST, state: "acknowledged", details: {}, history: [], deliveries: [] };
  });
  await load("/runs/lossy");
  fireEvent.click((await strip()).getByRole("button", { name: "Acknowledge" }));
  await waitFor(() => expect(screen.queryByRole("region", { name: "Loss of data" })).toBeNull());
  expect(server.bodies("POST", "/api/v1/alerts/5/acknowledge")).toEqual([{ reason: "", same_kind: false }]);
});

it("is absent on pages of runs that lose nothing, and has no action for viewers", async () => {
  const server = lossyServer("viewer");
  addRun(server, runOf("sound"));
  await load("/runs/sound");
  await screen.findByRole("heading", { level: 1 });
  expect(screen.queryByRole("region", { name: "Loss of data" })).toBeNull();
  await load("/runs/lossy");
  expect((await strip()).queryByRole("button", { name: "Acknowledge" })).toBeNull();
});
