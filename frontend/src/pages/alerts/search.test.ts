import { expect, it } from "vitest";
import { alertsSearch } from "./search";

it("keeps what can be asked, and nothing else", () => {
  expect(alertsSearch({ state: "resolved", severity: "error", kind: "disk_low", run: "a", text: 7, alert: "12" })).toEqual({
    state: "resolved", severity: "error", kind: "disk_low", run: "a", text: "7", alert: 12,
  });
  expect(alertsSearch({ state: "unresolved", severity: "loud", kind: "nothing", run: "", alert: "-1" })).toEqual({});
});
