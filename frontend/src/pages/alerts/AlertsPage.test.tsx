import { fireEvent, screen, waitFor } from "@testing-library/react";
import { expect, it } from "vitest";
import { alertOf, groupOf, summaryOf } from "@/testing/alerts";
import { dialog, fill, here, load, one, reload, serverFor } from "@/testing/page";

it("filters alerts by state, text and run, which are part of the address", async () => {
  const corrupt = groupOf(alertOf(1, "3 items of batch 2 were corrupt", { state: "resolved", run: "hostile" }));
  const silent = groupOf(alertOf(2, "the fleet was silent", { state: "resolved", run: "hostile" }));
  serverFor().on("GET", "/api/v1/alerts", ({ query }) => {
    const [state, text, run] = ["state", "text", "run"].map((name) => query.get(name) ?? "");
    const results = [corrupt, silent].filter((one) => one.state === state && one.message.includes(text ?? "") && (!run || one.run === run));
    return { results, next: null, summary: summaryOf() };
  });
  const user = await load("/alerts");
  const shown = () => [...document.querySelectorAll("tbody [data-open]")].map(({ textContent }) => textContent);
  fireEvent.click(await screen.findByLabelText("Resolved"));
  await waitFor(() => expect(here()).toBe("/alerts?state=resolved"));
  await waitFor(() => expect(shown()).toHaveLength(2));
  await user.keyboard("/3 items of batch 2");
  await waitFor(() => expect(shown()).toEqual(["3 items of batch 2 were corrupt"]));
  await reload();
  await waitFor(() => expect(shown()).toEqual(["3 items of batch 2 were corrupt"]));
  fill(screen.getByLabelText("Run"), "no-such-run");
  expect(await screen.findByRole("heading", { name: "No matching alerts" })).toBeVisible();
  fireEvent.click(screen.getByRole("link", { name: "All alerts" }));
  await waitFor(() => expect(here()).toBe("/alerts?state=all"));
});

it("lists the alerts of a kind in one row, and one by one when it is opened", async () => {
  const [first, second] = [alertOf(1, "run a is silent"), alertOf(2, "run b is silent")];
  serverFor().on("GET", "/api/v1/alerts", ({ query }) => {
    const results = query.get("kind") ? [groupOf(second), groupOf(first)] : [groupOf(second, 2)];
    return { results, next: null, summary: summaryOf() };
  });
  await load("/alerts");
  fireEvent.click(await screen.findByRole("button", { name: "1 more alert of this kind" }));
  expect(await screen.findByText("run a is silent")).toBeVisible();
  expect(here()).toBe("/alerts?kind=items_corrupt");
});

it("acknowledges all alerts of a kind", async () => {
  const alert = alertOf(2, "run b is silent");
  const summary = summaryOf({ errors: 3, groups: [groupOf(alert, 3)] });
  const server = serverFor().tell("alerts", { alerts: summary });
  server
    .on("GET", "/api/v1/alerts", { results: [groupOf(alert, 3)], next: null, summary })
    .on("GET", "/api/v1/alerts/{alert}", { ...alert, details: {}, deliveries: [] })
    .on("GET", "/api/v1/alerts/kinds", { results: [], next: null })
    .on("POST", "/api/v1/alerts/{alert}/acknowledge", { ...alert, state: "acknowledged", details: {}, deliveries: [] });
  await load("/alerts?alert=2");
  fill(await screen.findByLabelText("Reason"), "one cause");
  fireEvent.click(await screen.findByRole("button", { name: "Acknowledge all 3 of this kind" }));
  await waitFor(() => expect(server.bodies("POST", "/api/v1/alerts/2/acknowledge")).toEqual([{ reason: "one cause", same_kind: true }]));
});

it("snoozes an alert until the snooze is ended, and lists it until then", async () => {
  const alert = alertOf(2, "run b is silent");
  const row = {
    id: 5,
    kind: alert.kind,
    title: alert.title,
    message: alert.message,
    alert: 2,
    rule: null,
    run: null,
    run_uid: null,
    until: null,
    reason: "known",
    created_at: alert.first_seen_at,
    created_by: "ada",
  };
  let rows = [row];
  const server = serverFor()
    .on("GET", "/api/v1/alerts", { results: [groupOf(alert)], next: null, summary: summaryOf() })
    .on("GET", "/api/v1/alerts/{alert}", { ...alert, details: {}, deliveries: [] })
    .on("GET", "/api/v1/alerts/kinds", { results: [], next: null })
    .on("POST", "/api/v1/alerts/snoozes", row)
    .on("GET", "/api/v1/alerts/snoozes", () => ({ results: rows, next: null }))
    .on("DELETE", "/api/v1/alerts/snoozes/{snooze}", () => {
      rows = [];
      return null as never;
    });
  await load("/alerts?alert=2");
  fireEvent.click(await screen.findByRole("button", { name: "Snooze…" }));
  const asked = await dialog(`Snooze ${alert.title}`);
  fireEvent.click(asked.getByLabelText("Until ended"));
  fill(asked.getByLabelText(/^Reason/), "known");
  fireEvent.click(asked.getByRole("button", { name: "Snooze" }));
  await waitFor(() =>
    expect(server.bodies("POST", "/api/v1/alerts/snoozes")).toEqual([{ alert: 2, rule: null, until: null, reason: "known" }]),
  );

  await load("/alerts");
  fireEvent.click(await screen.findByLabelText("Snoozed"));
  await waitFor(() => expect(here()).toBe("/alerts?view=snoozed"));
  expect(await one("[data-snooze='5']")).toHaveTextContent("until ended");
  fireEvent.click(screen.getByRole("button", { name: /^End the snooze/ }));
  fireEvent.click((await dialog(/^End the snooze/)).getByRole("button", { name: "End snooze" }));
  expect(await screen.findByText("Nothing is snoozed")).toBeVisible();
});
