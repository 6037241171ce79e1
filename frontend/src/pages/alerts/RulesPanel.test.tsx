import { fireEvent, screen, waitFor } from "@testing-library/react";
import { expect, it } from "vitest";
import type { AlertRule } from "@/api/alerts";
import { dialog, fill, load, one, press, serverFor } from "@/testing/page";
import type { Server } from "@/testing/server";

/** A rule that does not fire, with changes. */
function ruleOf(changes: Partial<AlertRule> = {}): AlertRule {
  const now = new Date().toISOString();
  return {
    id: 1,
    name: "Loss is high",
    metric: "train/loss",
    comparator: "above",
    threshold: 5,
    for_seconds: 0,
    severity: "error",
    action: "notify",
    runbook: "",
    run: null,
    run_uid: null,
    filter: "",
    is_enabled: true,
    condition: "above 5",
    created_at: now,
    created_by: "ada",
    changed_at: now,
    changed_by: "ada",
    firing: 0,
    ...changes,
  };
}

const withRules = (...rules: AlertRule[]): Server =>
  serverFor().on("GET", "/api/v1/alerts/rules", { results: rules, next: null, at_most: 100 });

async function choose(action: string): Promise<void> {
  const asked = await dialog(/rule/);
  fireEvent.click(asked.getByLabelText("When it fires", { selector: "input" }));
  fireEvent.click(await screen.findByRole("option", { name: action, hidden: true }));
}

it("creates a rule that pauses the run", async () => {
  const server = withRules();
  server.on("POST", "/api/v1/alerts/rules", ruleOf({ action: "pause" }));
  await load("/alerts?view=rules");
  await press("New rule");
  const asked = await dialog("New alert rule");
  expect(asked.getByLabelText("When it fires", { selector: "input" })).toHaveValue("Notify");
  fill(asked.getByLabelText(/^Metric/), "train/loss");
  fill(asked.getByLabelText(/^Threshold/), "5");
  fill(asked.getByLabelText(/^Name/), "Loss is high");
  await choose("Notify and pause the run");
  fireEvent.click(asked.getByRole("button", { name: "Create rule" }));
  await waitFor(() => expect(server.bodies("POST", "/api/v1/alerts/rules")).toHaveLength(1));
  expect(server.bodies("POST", "/api/v1/alerts/rules")[0]).toMatchObject({ metric: "train/loss", threshold: 5, action: "pause" });
});

it("lists the action of a rule, which can be changed", async () => {
  const server = withRules(ruleOf({ action: "pause" }), ruleOf({ id: 2, name: "Entropy is low" }));
  server.on("PUT", "/api/v1/alerts/rules/{rule}", ruleOf());
  await load("/alerts?view=rules");
  expect(await one("[data-rule='1']")).toHaveTextContent("train/loss above 5 · error · pauses the run");
  expect(await one("[data-rule='2']")).not.toHaveTextContent("pauses");
  await press("Loss is high");
  const asked = await dialog("Edit rule Loss is high");
  expect(asked.getByLabelText("When it fires", { selector: "input" })).toHaveValue("Notify and pause the run");
  await choose("Notify");
  fireEvent.click(asked.getByRole("button", { name: "Save rule" }));
  await waitFor(() => expect(server.bodies("PUT", "/api/v1/alerts/rules/1")).toMatchObject([{ action: "notify" }]));
});
