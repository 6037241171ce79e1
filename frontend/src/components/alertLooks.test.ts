import { expect, it } from "vitest";
import { alertLook, placeOf, spoken } from "./alertLooks";

it("shows the severity until acknowledged", () => {
  expect(alertLook({ severity: "error", state: "open" })).toMatchObject({ word: "error", tone: "bad" });
  expect(alertLook({ severity: "warning", state: "open" })).toMatchObject({ word: "warning", tone: "held" });
  expect(alertLook({ severity: "error", state: "acknowledged" })).toMatchObject({ word: "acknowledged", tone: "busy" });
  expect(alertLook({ severity: "error", state: "resolved" })).toMatchObject({ word: "resolved", tone: "quiet" });
});

it("links to its subject with escaped names", () => {
  expect(placeOf({ kind: "batch_quarantined", run: "mix", subject: "a b" })).toBe("/runs/mix/queue?batch=a%20b");
  expect(placeOf({ kind: "lesson_regressed", run: "a/b", subject: "x&y" })).toBe("/runs/a%2Fb/evaluations?lesson=x%26y");
  expect(placeOf({ kind: "ledger_unbalanced", run: "mix", subject: "" })).toBe("/runs/mix");
  expect(placeOf({ kind: "disk_low", run: null, subject: "" })).toBeNull();
});

it("counts alerts by severity", () => {
  expect(spoken({ errors: 1, warnings: 2 })).toBe("Alerts: 1 error, 2 warnings");
  expect(spoken({ errors: 0, warnings: 0 })).toBe("Alerts: none open");
});

it("describes silenced alerts, and links a rule's alert to its metric", () => {
  expect(alertLook({ severity: "error", state: "open", silenced_until: "2026-03-01T12:00:00Z" }).word).toBe("silenced");
  expect(alertLook({ severity: "error", state: "acknowledged", silenced_until: "2026-03-01T12:00:00Z" }).word).toBe("acknowledged");
  expect(placeOf({ kind: "rule", run: "pole", subject: "3", metric: "train/loss" })).toBe("/runs/pole/metrics?pin=train%2Floss&x=time");
});
