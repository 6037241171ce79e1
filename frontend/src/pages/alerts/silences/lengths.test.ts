import { expect, it } from "vitest";
import { endOf } from "./lengths";

const NOON = Date.parse("2026-03-01T12:00:00Z");

it("ends after hours, or at a future time", () => {
  expect(endOf("4", "", NOON)).toBe("2026-03-01T16:00:00.000Z");
  expect(endOf("until", "2026-03-02T12:00:00Z", NOON)).toBe("2026-03-02T12:00:00.000Z");
  expect(endOf("until", "2026-03-01T11:00:00Z", NOON)).toBeNull();
  expect(endOf("until", "", NOON)).toBeNull();
});
