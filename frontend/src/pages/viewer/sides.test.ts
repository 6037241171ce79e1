import { expect, it } from "vitest";
import { byVersion, extremesOf, sideOf, sideOfLink, sideText } from "@/pages/viewer/sides";

it.each([
  ["40/2", { group: 40, sequence: 2 }],
  ["other-run/40/2", { run: "other-run", group: 40, sequence: 2 }],
])("reads %j and writes it again", (text, side) => {
  expect(sideOf(text)).toEqual(side);
  expect(sideText(side)).toBe(text);
});

it.each(["", "40", "a/b/c", "40/-1", "x/y/40/2", "40/2/", 40, null, undefined, ["40/2"]])("does not read %j", (value) => {
  expect(sideOf(value)).toBeUndefined();
});

it.each([
  ["https://deck.example/runs/math-v2/groups/40?view=tokens&seq=3#x", { run: "math-v2", group: 40, sequence: 3 }],
  [" /runs/a%20b/groups/7 ", undefined],
  ["/runs/math/groups/7", { run: "math", group: 7, sequence: 0 }],
  ["/runs/math/groups/7?seq=-1", undefined],
  ["/runs/%E0%A4%A/groups/7", undefined],
  ["/runs/math/fragments/7", undefined],
  ["javascript:alert(1)", undefined],
])("finds the sequence of the link %j", (link, side) => {
  expect(sideOfLink(link)).toEqual(side);
});

it("orders groups by policy version, those of an unknown one first", () => {
  const at = (id: number, epoch: number, policy_step: number | null) => ({ id, epoch, policy_step });
  const groups = [at(9, 0, 2), at(8, 1, 0), at(7, 0, 10), at(6, 0, null), at(5, 0, 2), at(4, 0, -1), at(3, 0, null)];
  expect(byVersion(groups).map(({ id }) => id)).toEqual([3, 6, 4, 5, 9, 7, 8]);
});

it.each([
  [
    [0, 1, -1],
    [1, 2],
  ],
  [
    [1, 1, 1],
    [0, 1],
  ],
  [
    [null, null],
    [0, 1],
  ],
  [
    [0.5, null],
    [0, 1],
  ],
  [[2], [0, 0]],
  [[], [0, 0]],
])("compares the best with the worst of the scores %j", (scores, [left, right]) => {
  const sequences = scores.map((score, index) => ({ index, score }));
  expect(extremesOf(1, sequences)).toEqual({ left: { group: 1, sequence: left }, right: { group: 1, sequence: right } });
});
