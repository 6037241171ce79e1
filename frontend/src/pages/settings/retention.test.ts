import { describe, expect, it } from "vitest";
import { retentionSettings, retentionText } from "@/pages/settings/retention";

const week = { setting: "ROLLDECK_RETENTION_SECONDS", value: 604_800, unit: "seconds" } as const;
const room = { setting: "ROLLDECK_RETENTION_BYTES", value: 1_000, unit: "bytes" } as const;
const all = { setting: "ROLLDECK_RETENTION_ITEMS", value: 0, unit: "items" } as const;

describe("retention", () => {
  it("is described by its limits", () => {
    expect(retentionText({ what: "payloads", limits: [week, room, all] })).toBe("for 7 d, newest 1 kB");
    expect(retentionText({ what: "archives", limits: [{ ...week, value: 0 }] })).toBe("until deleted manually");
    expect(retentionText({ what: "metrics", limits: [] })).toBe("as long as the run");
    expect(retentionText({ what: "weights", limits: [{ setting: "", value: 4, unit: "per_run" }] })).toBe("newest 4 per run");
  });

  it("lists setting names only", () => {
    expect(retentionSettings({ limits: [week, { setting: "", value: 4, unit: "per_run" }] })).toEqual(["ROLLDECK_RETENTION_SECONDS"]);
  });
});
