import { expect, it } from "vitest";
import type { AlertRule } from "@/api/alerts";
import { compared, emptyForm, formOf, levelText, problemsOf, ruleOf } from "./drafts";

const RULE: AlertRule = {
  id: 3,
  name: "Loss is high",
  metric: "train/loss",
  comparator: "above",
  threshold: 5,
  for_seconds: 600,
  severity: "error",
  runbook: "Wait.",
  run: null,
  run_uid: null,
  filter: "tag:a",
  is_enabled: false,
  condition: "above 5 for 10 min",
  created_at: "",
  created_by: "ada",
  changed_at: "",
  changed_by: "ada",
  firing: 0,
};

it("round-trips a rule through the form", () => {
  const form = formOf(RULE);
  expect([form.wait, form.unit, form.scope]).toEqual(["10", "min", "filter"]);
  const { name, metric, comparator, threshold, for_seconds, severity, runbook, run, filter, is_enabled } = RULE;
  expect(ruleOf(form, "why")).toEqual({
    name,
    metric,
    comparator,
    threshold,
    for_seconds,
    severity,
    runbook,
    run,
    filter,
    is_enabled,
    reason: "why",
  });
  expect(formOf({ ...RULE, for_seconds: 7200 })).toMatchObject({ wait: "2", unit: "h" });
  expect(formOf({ ...RULE, for_seconds: 90 })).toMatchObject({ wait: "90", unit: "s" });
  expect(formOf({ ...RULE, for_seconds: 0 })).toMatchObject({ wait: "0", unit: "min" });
});

it("starts with a chart's values", () => {
  const form = emptyForm({ metric: "kl", run: "pole", threshold: 0.2 });
  expect(problemsOf(form)).toEqual({});
  expect(ruleOf(form, "")).toMatchObject({ metric: "kl", comparator: "above", threshold: 0.2, for_seconds: 0, run: "pole", filter: "" });
});

it("validates by field", () => {
  expect(Object.keys(problemsOf(emptyForm({})))).toEqual(["name", "metric", "threshold"]);
  const form = emptyForm({ metric: "kl", threshold: 1 });
  expect(problemsOf({ ...form, threshold: "five" })).toHaveProperty("threshold");
  expect(problemsOf({ ...form, threshold: "", comparator: "not_finite" })).toEqual({});
  expect(problemsOf({ ...form, wait: "25", unit: "h" })).toHaveProperty("for_seconds");
  expect(problemsOf({ ...form, wait: "0.001", unit: "min" })).toHaveProperty("for_seconds");
  expect(problemsOf({ ...form, scope: "run" })).toHaveProperty("run");
});

it("requires a duration but no threshold for missing data", () => {
  const form = emptyForm({ metric: "kl" });
  expect(compared(form, "no_data")).toEqual({ comparator: "no_data", wait: "5", unit: "min" });
  expect(compared({ ...form, wait: "2" }, "no_data")).toEqual({ comparator: "no_data" });
  const silent = { ...form, ...compared(form, "no_data") };
  expect(problemsOf(silent)).toEqual({});
  expect(ruleOf({ ...silent, threshold: "7" }, "")).toMatchObject({ comparator: "no_data", threshold: null, for_seconds: 300 });
  expect(problemsOf({ ...silent, wait: "9", unit: "s" })).toHaveProperty("for_seconds");
});

it("rounds a level", () => {
  expect([5.0371, 0.00012345, -1234.5].map(levelText)).toEqual(["5.04", "0.000123", "-1230"]);
});
