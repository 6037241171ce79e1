import { expect, it } from "vitest";
import { compositionText, latencySeconds, lookOf, mayDecide, namesOf, stalenessBars } from "./batches";

const NOW = Date.parse("2026-01-01T00:01:00Z");
const batch = (state: "leased" | "returned" | "quarantined" | "confirmed", expires = "2026-01-01T00:02:00Z") => ({
  state,
  lease_expires_at: expires,
  leased_at: "2026-01-01T00:00:00Z",
  settled_at: "2026-01-01T00:00:07Z",
});

it("shows an expired lease before it is processed", () => {
  expect(lookOf(batch("leased"), NOW).words).toBe("leased");
  expect(lookOf(batch("leased", "2026-01-01T00:00:30Z"), NOW).words).toBe("lease expired");
});
it("allows actions only on batches that no trainer holds", () => {
  expect([batch("leased"), batch("confirmed")].map((each) => mayDecide(each, NOW))).toEqual([false, false]);
  expect([batch("returned"), batch("quarantined"), batch("leased", "2026-01-01T00:00:30Z")].map((each) => mayDecide(each, NOW))).toEqual([
    true,
    true,
    true,
  ]);
});
it("measures latency only of acknowledged batches", () => {
  expect([latencySeconds(batch("confirmed")), latencySeconds(batch("returned"))]).toEqual([7, null]);
});
it("orders staleness by versions", () => {
  expect(stalenessBars({ "2": 1, "0": 3 })).toEqual([
    { versions: 0, items: 3, part: 0.75 },
    { versions: 2, items: 1, part: 0.25 },
  ]);
  expect(stalenessBars({})).toEqual([]);
});
it("lists the largest environments first", () => {
  expect(compositionText({ a: 1, b: 4, c: 2, d: 1 })).toBe("b 4, c 2, a 1, … 1 more");
  const names = namesOf([{ env_id: 0, wandb_name: "math_0" }]);
  expect(compositionText({ "0": 8, "-1": 4, pole: 2 }, names)).toBe("math_0 8, without environment 4, pole 2");
});
