import { describe, expect, it } from "vitest";
import { changedBy, labelAfter, labelOfAll, markText, remarked } from "@/marks/marks";

const MARK = { label: 3, note: "", changed_by: "bob", changed_at: "2026-01-01T00:00:00Z" };

describe("a mark", () => {
  it("keeps unchanged fields and records the author", () => {
    const by = changedBy("alice", new Date(0));
    expect(remarked(MARK, { note: " odd " }, by)).toEqual({
      ...MARK,
      note: "odd",
      changed_by: "alice",
      changed_at: "1970-01-01T00:00:00.000Z",
    });
  });
  it("is null when empty", () => {
    expect(remarked(MARK, { label: null })).toBeNull();
    expect(remarked(null, { note: "   " })).toBeNull();
  });
  it("is cleared by 0 and by its own digit", () => {
    expect([labelAfter(null, 3), labelAfter(MARK, 4), labelAfter(MARK, 3), labelAfter(MARK, 0)]).toEqual([3, 4, null, null]);
  });
  it("is shared only if all groups have it", () => {
    expect(labelOfAll([{ mark: MARK }, { mark: MARK }])).toBe(3);
    expect(labelOfAll([{ mark: MARK }, { mark: null }])).toBeNull();
    expect(labelOfAll([{ mark: null }])).toBeNull();
  });
  it("has screen reader text", () => {
    expect(markText({ ...MARK, note: "odd" }, () => "reward hack")).toBe("label 3 reward hack, noted");
    expect(markText(null, () => "")).toBe("not marked");
  });
});
