import { expect, it } from "vitest";
import { alertsSearch } from "./search";

it("keeps what can be asked, and nothing else", () => {
  expect(alertsSearch({ state: "resolved", severity: "error", kind: "disk_low", run: "a", text: 7, alert: "12" })).toEqual({
    state: "resolved",
    severity: "error",
    kind: "disk_low",
    run: "a",
    text: "7",
    alert: 12,
  });
  expect(alertsSearch({ state: "unresolved", severity: "loud", kind: "nothing", run: "", alert: "-1" })).toEqual({});
});

it("knows which part of the page is shown, and of the rules which is open", () => {
  expect(alertsSearch({ view: "rules", rule: "new" })).toMatchObject({ view: "rules", rule: "new" });
  expect(alertsSearch({ view: "rules", rule: "4" })).toMatchObject({ view: "rules", rule: 4 });
  expect(alertsSearch({ view: "silences", rule: 4 })).toEqual({ view: "silences" });
  expect(alertsSearch({ view: "moon", rule: 4 })).toEqual({});
});
