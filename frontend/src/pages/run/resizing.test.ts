import { describe, expect, it } from "vitest";
import { whatHappens } from "@/pages/run/resizing";

describe("a new size of the fleet", () => {
  it("says how many workers start", () => {
    expect(whatHappens(2, 3)).toBe("Starts 1 worker.");
    expect(whatHappens(2, 5)).toBe("Starts 3 workers.");
  });

  it("says how many leave, and that they send what they have", () => {
    expect(whatHappens(3, 1)).toBe("Lets 2 workers send what they have, then ends them.");
  });

  it("says so when nothing changes", () => {
    expect(whatHappens(2, 2)).toContain("stays as it is");
  });
});
