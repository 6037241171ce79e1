import { expect, it } from "vitest";
import { type Expression, parsed } from "@/charts/expression";
import { evaluated } from "./evaluated";

const line = (run: string, name: string, x: number[], last: (number | null)[]) => ({
  ...{ run, name, x, last, samples: x.length },
  ...{ min: last, max: last, mean: last, is_exact: true },
});
const ratio = parsed("a / b").expression as Expression;

it("evaluates each run at the samples of all its metrics", () => {
  const found = [line("r", "a", [0, 2], [2, 6]), line("r", "b", [0, 1, 2], [1, 2, 3]), line("s", "a", [5], [8]), line("s", "b", [5], [4])];
  const { lines, absent } = evaluated(ratio, ["r", "s"], found);
  expect(lines.map(({ run, x, last }) => [run, x, last])).toEqual([
    ["r", [0, 1, 2], [2, 2, 2]],
    ["s", [5], [2]],
  ]);
  expect(absent).toEqual([]);
});

it("has gaps at a division by zero, at NaN and where a metric has ended", () => {
  const found = [line("r", "a", [0, 1, 2, 3], [1, null, 1, 1]), line("r", "b", [0, 1, 2], [0, 1, 2])];
  expect(evaluated(ratio, ["r"], found).lines[0]?.last).toEqual([null, null, 0.5, null]);
});

it("names metrics without samples", () => {
  const found = [line("r", "a", [0], [1]), line("r", "b", [], [])];
  expect(evaluated(ratio, ["r"], found)).toMatchObject({ absent: ["b"], lines: [{ last: [null] }] });
  expect(evaluated(ratio, ["r"], [])).toMatchObject({ absent: ["a", "b"], lines: [{ x: [], last: [] }] });
});
