import { describe, expect, it } from "vitest";
import { present, sizeArrival, whatHappens } from "@/pages/run/fleet/resizing";

describe("a new size of the fleet", () => {
  it("describes an increase", () => {
    expect(whatHappens(2, 3)).toBe("Starts 1 worker.");
    expect(whatHappens(2, 5)).toBe("Starts 3 workers.");
  });

  it("describes a decrease", () => {
    expect(whatHappens(3, 1)).toBe("2 workers will send pending data and exit.");
  });

  it("describes no change", () => {
    expect(whatHappens(2, 2)).toContain("is not changed");
  });
});

const rows = (...states: ("running" | "respawning" | "unknown" | "stopped")[]) => states.map((state) => ({ state }));

describe("the size of a fleet now", () => {
  it("counts present workers", () => {
    expect(present(rows("running", "respawning", "unknown", "stopped"))).toBe(3);
  });

  it("shows the request until applied", () => {
    expect(sizeArrival(3, rows("running"))).toEqual({ state: "requested", text: "requested: 3 workers; 1 present" });
    expect(sizeArrival(1, rows("running", "running"))?.text).toBe("requested: 1 worker; 2 present");
    expect(sizeArrival(1, rows("running", "stopped"))?.state).toBe("applied");
  });

  it("counts cordoned places", () => {
    expect(sizeArrival(2, [{ state: "running" }, { state: "stopped", cordon: "out" }])?.state).toBe("applied");
  });

  it("is null without workers", () => {
    expect(sizeArrival(2, [])).toBeNull();
  });
});
