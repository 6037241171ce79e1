import { expect, it } from "vitest";
import { alertLook, alertUrl, countsText } from "@/components/chips";

it("shows the severity until acknowledged", () => {
  expect(alertLook({ severity: "error", state: "open" })).toMatchObject({ word: "error", tone: "bad" });
  expect(alertLook({ severity: "warning", state: "open" })).toMatchObject({ word: "warning", tone: "held" });
  expect(alertLook({ severity: "error", state: "acknowledged" })).toMatchObject({ word: "acknowledged", tone: "busy" });
  expect(alertLook({ severity: "error", state: "resolved" })).toMatchObject({ word: "resolved", tone: "quiet" });
});

it("links to its subject with escaped names", () => {
  expect(alertUrl({ kind: "batch_quarantined", run: "mix", subject: "a b" })).toBe("/runs/mix/queue?batch=a%20b");
  expect(alertUrl({ kind: "lesson_regressed", run: "a/b", subject: "x&y" })).toBe("/runs/a%2Fb/curriculum?lesson=x%26y");
  expect(alertUrl({ kind: "ledger_unbalanced", run: "mix", subject: "" })).toBe("/runs/mix");
  expect(alertUrl({ kind: "disk_low", run: null, subject: "" })).toBeNull();
  expect(alertUrl({ kind: "jobs_down", run: null, subject: "" })).toBe("/cluster");
  expect(alertUrl({ kind: "part_exited", run: null, subject: "jobs on here" })).toBe("/cluster");
});

it("counts alerts by severity", () => {
  expect(countsText({ errors: 1, warnings: 2 })).toBe("Alerts: 1 error, 2 warnings");
  expect(countsText({ errors: 0, warnings: 0 })).toBe("Alerts: none open");
});

it("describes snoozed alerts, and links a rule's alert to its metric", () => {
  expect(alertLook({ severity: "error", state: "open", is_snoozed: true }).word).toBe("snoozed");
  expect(alertLook({ severity: "error", state: "acknowledged", is_snoozed: true }).word).toBe("acknowledged");
  expect(alertUrl({ kind: "rule", run: "pole", subject: "3", metric: "train/loss" })).toBe("/runs/pole/metrics?pin=train%2Floss&x=time");
});
