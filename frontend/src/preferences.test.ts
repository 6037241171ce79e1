import { expect, it } from "vitest";
import { parsed, STANDARD } from "./preferences";

it("reads what was kept", () => {
  expect(parsed('{"time":"utc","density":"dense","rows":100}')).toEqual({ time: "utc", density: "dense", rows: 100 });
});

it("takes nothing that makes no sense", () => {
  for (const kept of [null, "", "[", "7", "null", '{"time":"mars","density":3,"rows":1e9}']) {
    expect(parsed(kept)).toEqual(STANDARD);
  }
});
