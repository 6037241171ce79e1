import { describe, expect, it } from "vitest";
import { changedBy, labelAfter, labelOfAll, markText, remarked, setNameOf, setNameProblem } from "@/marks/marks";

const MARK = { label: 3, is_pinned: false, note: "", sets: [], changed_by: "bob", changed_at: "2026-01-01T00:00:00Z" };

describe("a mark", () => {
  it("keeps unchanged fields and records the author", () => {
    const by = changedBy("alice", new Date(0));
    expect(remarked(MARK, { is_pinned: true }, by)).toEqual({
      ...MARK,
      is_pinned: true,
      changed_by: "alice",
      changed_at: "1970-01-01T00:00:00.000Z",
    });
  });
  it("is null when empty", () => {
    expect(remarked(MARK, { label: null })).toBeNull();
    expect(remarked({ ...MARK, sets: ["kept"] }, { label: null })).toMatchObject({ label: null, sets: ["kept"], changed_by: "" });
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
    expect(markText({ ...MARK, is_pinned: true, sets: ["a", "b"] }, () => "reward hack")).toBe("pinned, label 3 reward hack, in a, b");
    expect(markText(null, () => "")).toBe("not marked");
  });
});

describe("the name of a set", () => {
  it("is derived from typed text", () => {
    expect(setNameOf("  Reward hacks ")).toBe("reward-hacks");
    expect(setNameProblem("reward-hacks")).toBe("");
  });
  it("is rejected if it does not fit a URL", () => {
    for (const name of ["", "-a", "a/b", "a".repeat(61), "ä"]) expect(setNameProblem(name)).not.toBe("");
  });
});
