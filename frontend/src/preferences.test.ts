import { expect, it } from "vitest";
import { parsed, STANDARD } from "./preferences";

it("parses stored values", () => {
  expect(parsed('{"time":"utc","density":"dense","rows":100}')).toEqual({ time: "utc", density: "dense", rows: 100 });
});

it("ignores invalid values", () => {
  for (const kept of [null, "", "[", "7", "null", '{"time":"mars","density":3,"rows":1e9}']) {
    expect(parsed(kept)).toEqual(STANDARD);
  }
});
