import { describe, expect, it } from "vitest";
import { lineOf } from "@/testing/metrics";
import { drawingOf, groupLines, overMetric, type RunsLook } from "./drawing";
import { panelOf } from "./panels";

const look = (...runs: string[]): RunsLook => ({ runs, smooth: 0 });
const valuesOf = (lines: { label: string; values: unknown }[]) => lines.map(({ label, values }) => [label, values]);
const buckets = { is_exact: false, min: [0], max: [9], mean: [4], count: [2] };

describe("a panel of one metric", () => {
  it("has one line for each run, also of a run without samples", () => {
    const drawn = drawingOf(panelOf("loss"), [lineOf("a", "loss", [0, 2], [3, 1]), lineOf("b", "loss", [], [])], look("a", "b"));
    expect(drawn.x).toEqual([0, 2]);
    expect(valuesOf(drawn.lines)).toEqual([
      ["a", [3, 1]],
      ["b", [undefined, undefined]],
    ]);
    expect([drawn.absent, drawn.newest, drawn.band]).toEqual([["b"], 1, undefined]);
  });

  it("has the band of the buckets of a single run", () => {
    const drawn = drawingOf(panelOf("loss"), [lineOf("a", "loss", [5], [3], buckets)], look("a"));
    expect(drawn.band).toEqual({ low: [0], high: [9], label: "min – max" });
    expect(drawn.lines[0]?.role).toBe(1);
  });

  it("keeps the styles of runs, whichever are drawn", () => {
    const places = new Map([["b", 3]]);
    expect(drawingOf(panelOf("loss"), [], { ...look("b"), places }).lines[0]?.role).toBe(4);
  });

  it("shows groups of runs in place of runs", () => {
    const groups = [{ label: "both", runs: ["a", "b"] }];
    const found = [lineOf("a", "loss", [0], [1]), lineOf("b", "loss", [0], [3])];
    const drawn = drawingOf(panelOf("loss"), found, { ...look("a", "b"), groups, spread: "range" });
    expect(valuesOf(drawn.lines)).toEqual([
      ["both, low", [1]],
      ["both, high", [3]],
      ["both, mean", [2]],
    ]);
  });

  it("draws twenty runs, each with its own style", () => {
    const runs = Array.from({ length: 20 }, (_, i) => `run-${i}`);
    const { lines } = drawingOf(
      panelOf("loss"),
      runs.map((run, i) => lineOf(run, "loss", [0, 1], [i, i])),
      look(...runs),
    );
    expect(lines).toHaveLength(20);
    expect(new Set(lines.map(({ role, dash, marker }) => JSON.stringify([role, dash, marker]))).size).toBe(20);
  });
});

describe("a panel of an expression", () => {
  const ratio = panelOf("= a / b");

  it("evaluates each run at the samples of all its metrics", () => {
    const found = [
      ...[lineOf("r", "a", [0, 2], [2, 6]), lineOf("r", "b", [0, 1, 2], [1, 2, 3])],
      ...[lineOf("s", "a", [5], [8]), lineOf("s", "b", [5], [4])],
    ];
    const { x, lines, absent } = drawingOf(ratio, found, look("r", "s"));
    expect(x).toEqual([0, 1, 2, 5]);
    expect(valuesOf(lines)).toEqual([
      ["r", [2, 2, 2, undefined]],
      ["s", [undefined, undefined, undefined, 2]],
    ]);
    expect(absent).toEqual([]);
  });

  it("has gaps at a division by zero, at NaN and where a metric has ended", () => {
    const found = [lineOf("r", "a", [0, 1, 2, 3], [1, null, 1, 1]), lineOf("r", "b", [0, 1, 2], [0, 1, 2])];
    expect(drawingOf(ratio, found, look("r")).lines[0]?.values).toEqual([null, null, 0.5, null]);
  });

  it("names metrics without samples", () => {
    expect(drawingOf(ratio, [lineOf("r", "a", [0], [1]), lineOf("r", "b", [], [])], look("r")).absent).toEqual(["b"]);
    expect(drawingOf(ratio, [], look("r"))).toMatchObject({ x: [], absent: ["a", "b"] });
  });
});

it("draws the metrics of a regular expression, of several runs with the names of both", () => {
  const panel = panelOf("/^l/");
  const found = [lineOf("a", "l1", [0], [1]), lineOf("b", "l1", [0], [2])];
  expect(valuesOf(drawingOf(panel, found, { ...look("a"), names: ["l1"] }).lines)).toEqual([["l1", [1]]]);
  expect(valuesOf(drawingOf(panel, found, { ...look("a", "b"), names: ["l1"] }).lines)).toEqual([
    ["a l1", [1]],
    ["b l1", [2]],
  ]);
});

describe("another metric as x axis", () => {
  const tokens = lineOf("a", "tokens", [0, 10], [0, 100]);

  it("is interpolated at the steps of the line", () => {
    const loss = lineOf("a", "loss", [0, 5, 10], [3, 2, 1]);
    const { x, lines, isScatter } = drawingOf(panelOf("loss"), [loss, tokens], { ...look("a"), x: "tokens" });
    expect([x, lines[0]?.values, isScatter]).toEqual([[0, 50, 100], [3, 2, 1], false]);
  });

  it("belongs to its own run", () => {
    const found = [lineOf("a", "loss", [10], [1]), tokens, lineOf("b", "loss", [10], [2]), lineOf("b", "tokens", [0, 10], [0, 7])];
    const { x, lines } = drawingOf(panelOf("loss"), found, { ...look("a", "b"), x: "tokens" });
    expect(x).toEqual([7, 100]);
    expect(valuesOf(lines)).toEqual([
      ["a", [undefined, 1]],
      ["b", [2, undefined]],
    ]);
  });

  it("omits points beyond its ends and in its gaps, and keeps gaps of the line", () => {
    const gappy = lineOf("a", "tokens", [2, 4, 6, 8], [20, 40, null, 80]);
    const loss = lineOf("a", "loss", [1, 2, 3, 5, 8, 9], [1, 2, null, 4, 5, 6]);
    expect(overMetric(loss, gappy)).toMatchObject({ x: [20, 30, 80], last: [2, null, 5], isOrdered: true });
  });

  it("is sorted where it decreases, without lines between the points", () => {
    const lr = lineOf("a", "lr", [0, 1, 2, 3], [1, 3, 2, 3]);
    const { x, lines, isScatter } = drawingOf(panelOf("loss"), [lineOf("a", "loss", [0, 1, 2, 3], [9, 8, 7, 6]), lr], {
      ...look("a"),
      x: "lr",
    });
    // Of the two points at 3 the last one counts.
    expect([x, lines[0]?.values, isScatter]).toEqual([[1, 2, 3], [9, 7, 6], true]);
  });

  it("moves the band of buckets with the line", () => {
    const loss = lineOf("a", "loss", [10], [3], buckets);
    expect(drawingOf(panelOf("loss"), [loss, tokens], { ...look("a"), x: "tokens" }).band).toMatchObject({ low: [0], high: [9] });
  });

  it("draws nothing of a run without it", () => {
    const loss = lineOf("a", "loss", [0, 1], [3, 2]);
    expect(drawingOf(panelOf("loss"), [loss], { ...look("a"), x: "tokens" }).x).toEqual([]);
  });
});

it("draws the mean of each group above the edges of its spread, over the samples of all its runs", () => {
  const groups = [
    { label: "one", runs: ["a", "b"] },
    { label: "other", runs: ["c", "unloaded"] },
  ];
  const columns = [
    { run: "a", values: [0, undefined, 2] },
    { run: "b", values: [4, 4, null] },
    { run: "c", values: [undefined, 7, undefined] },
  ];
  const lines = groupLines(groups, [0, 1, 2], columns, { spread: "range", smooth: 0 });
  expect(lines.map(({ label, entry, isFilled, values }) => [label, entry, isFilled, values])).toEqual([
    ["one, low", "one", undefined, [0, 1, null]],
    ["one, high", "one", true, [4, 4, null]],
    ["one, mean", "one", undefined, [2, 2.5, 2]],
    ["other, low", "other", undefined, [null, null, null]],
    ["other, high", "other", true, [null, null, null]],
    ["other, mean", "other", undefined, [null, 7, null]],
  ]);
});

it("smooths mean and edges alike", () => {
  const lines = groupLines([{ label: "one", runs: ["a"] }], [0, 1], [{ run: "a", values: [0, 1] }], { spread: "range", smooth: 0.5 });
  expect(lines[2]?.values[1]).toBeCloseTo(2 / 3);
});

it("continues the curves of a preset where only another one has a sample", () => {
  const curves = [
    { name: "a", label: "a", role: 1 as const },
    { name: "b", label: "b", role: 2 as const },
  ];
  const spec = { key: "p", title: "p", source: { kind: "preset" as const, prefix: "", curves, scale: 100 } };
  const drawing = drawingOf(spec, [lineOf("r", "a", [0, 20], [0.1, 0.2]), lineOf("r", "b", [10], [0.5])], { runs: ["r"], smooth: 0 });
  expect(drawing.x).toEqual([0, 10, 20]);
  expect(drawing.lines.map(({ values }) => values)).toEqual([
    [10, undefined, 20],
    [undefined, 50, undefined],
  ]);
});
