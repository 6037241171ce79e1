import { expect, it } from "vitest";
import { byVersion, extremesOf, sideOf, sideText } from "@/pages/viewer/sides";

it("reads a side and writes it again", () => {
  expect(sideOf("40/2")).toEqual({ group: 40, sequence: 2 });
  expect(sideText({ group: 40, sequence: 2 })).toBe("40/2");
});

it.each(["", "40", "a/b/c", "run/40/2", "40/-1", "x/y/40/2", "40/2/", 40, null, undefined, ["40/2"]])("does not read %j", (value) => {
  expect(sideOf(value)).toBeUndefined();
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
