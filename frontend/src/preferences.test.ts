import { expect, it } from "vitest";
import { parsed, STANDARD } from "./preferences";

it("parses stored values", () => {
  expect(parsed('{"time":"utc","density":"dense"}')).toEqual({ time: "utc" });
});

it("ignores invalid values", () => {
  for (const kept of [null, "", "[", "7", "null", '{"time":"mars"}']) {
    expect(parsed(kept)).toEqual(STANDARD);
  }
});
