import { expect, it } from "vitest";
import { alertsSearch } from "./search";

it("keeps valid parameters only", () => {
  expect(alertsSearch({ state: "resolved", severity: "error", kind: "disk_low", run: "a", text: 7, alert: "12" })).toEqual({
    state: "resolved",
    severity: "error",
    kind: "disk_low",
    run: "a",
    text: "7",
    alert: 12,
  });
  expect(alertsSearch({ state: "unresolved", severity: "loud", run: "", alert: "-1" })).toEqual({});
});

it("parses the view and the open rule", () => {
  expect(alertsSearch({ view: "rules", rule: "new" })).toMatchObject({ view: "rules", rule: "new" });
  expect(alertsSearch({ view: "rules", rule: "4" })).toMatchObject({ view: "rules", rule: 4 });
  expect(alertsSearch({ view: "snoozed", rule: 4 })).toEqual({ view: "snoozed" });
  expect(alertsSearch({ view: "moon", rule: 4 })).toEqual({});
});
