import { describe, expect, it } from "vitest";
import { fullness, keptSettings, keptWords } from "@/pages/settings/kept";

const week = { setting: "ROLLDECK_RETENTION_SECONDS", value: 604_800, unit: "seconds" } as const;
const room = { setting: "ROLLDECK_RETENTION_BYTES", value: 1_000, unit: "bytes" } as const;
const all = { setting: "ROLLDECK_RETENTION_ITEMS", value: 0, unit: "items" } as const;

describe("what is kept", () => {
  it("is told by the limits that there are", () => {
    expect(keptWords({ what: "payloads", limits: [week, room, all] })).toBe("for 7 d, newest 1 kB");
    expect(keptWords({ what: "archives", limits: [{ ...week, value: 0 }] })).toBe("until deleted manually");
    expect(keptWords({ what: "metrics", limits: [] })).toBe("as long as the run");
    expect(keptWords({ what: "weights", limits: [{ setting: "", value: 4, unit: "per_run" }] })).toBe("newest 4 per run");
  });

  it("names settings, and no number that is none", () => {
    expect(keptSettings({ limits: [week, { setting: "", value: 4, unit: "per_run" }] })).toEqual(["ROLLDECK_RETENTION_SECONDS"]);
  });

  it("is as full as its tightest limit", () => {
    expect(fullness({ limits: [week, room, { ...all, value: 10 }], size_bytes: 250, count: 9 })).toBe(0.9);
    expect(fullness({ limits: [room], size_bytes: 4_000, count: 0 })).toBe(1);
    expect(fullness({ limits: [week, all], size_bytes: 4_000, count: 9 })).toBeNull();
  });
});
