import { expect, it } from "vitest";
import type { MetricLine } from "@/api/types";
import { lineOf } from "@/testing/metrics";
import { drawingOf } from "./drawing";
import { namesOf, type PanelSpec } from "./panels";
import { presetsOf } from "./presets";

const line = (name: string, x: number[], last: (number | null)[], more: Partial<MetricLine> = {}) =>
  lineOf("a", `rolldeck/${name}`, x, last, more);
const chart = (kind: Parameters<typeof presetsOf>[0], key: string) => presetsOf(kind).find((one) => one.key === key) as PanelSpec;
const drawing = (spec: PanelSpec, found: MetricLine[], ...runs: string[]) =>
  drawingOf(spec, found, { runs: runs.length > 0 ? runs : ["a"], smooth: 0 });

it("has eight charts for every kind of run, each with an empty text", () => {
  for (const kind of ["fleet", "language", "outside"] as const) {
    const charts = presetsOf(kind);
    expect(charts).toHaveLength(8);
    expect(new Set(charts.map(({ title }) => title)).size).toBe(8);
    expect(charts.every(({ empty }) => empty?.endsWith("."))).toBe(true);
  }
});

it("begins with the return of every kind of run", () => {
  expect((["fleet", "language", "outside"] as const).map((kind) => presetsOf(kind)[0]?.title)).toEqual(["Return", "Reward", "Reward"]);
});

it("requests a chart's lines and band together", () => {
  expect(namesOf(chart("outside", "reward").source)).toEqual(
    ["reward/mean", "reward/p50", "reward/p10", "reward/p90"].map((name) => `rolldeck/${name}`),
  );
});

it("draws the percentile band and the newest value", () => {
  const found = ["reward/p90", "reward/mean", "reward/p10"].map((name, i) => line(name, [1, 2], [i, i + 10]));
  const drawn = drawing(chart("fleet", "reward"), found);
  expect(drawn.x).toEqual([1, 2]);
  expect(drawn.lines.map(({ label, values }) => [label, values])).toEqual([["mean", [1, 11]]]);
  expect(drawn.band).toEqual({ low: [2, 12], high: [0, 10], label: "p10 – p90" });
  expect(drawn.newest).toBe(11);
});

it("shows the mean of buckets, or the maximum where configured, and the newest sample", () => {
  const wide = { is_exact: false, mean: [3], max: [8], min: [0] };
  const drawn = drawing(chart("fleet", "staleness"), [line("staleness/p50", [9], [1], wide), line("staleness/p95", [9], [1], wide)]);
  expect(drawn.lines.map(({ values }) => values)).toEqual([[3], [8]]);
  expect(drawn.newest).toBe(1);
});

it("scales shares to percent and omits unmeasured lines", () => {
  const drawn = drawing(chart("outside", "variance"), [line("zero_variance_share", [5], [0.25])]);
  expect(drawn.lines.map(({ label, values }) => [label, values])).toEqual([["zero variance", [25]]]);
  expect([drawn.newest, drawing(chart("outside", "variance"), []).newest]).toEqual([25, null]);
});

it("draws the first curve of each of several runs", () => {
  const found = ["a", "b"].flatMap((run) =>
    ["reward/mean", "reward/p50"].map((name) => lineOf(run, `rolldeck/${name}`, [1], [run.length])),
  );
  const drawn = drawing(chart("fleet", "reward"), found, "a", "b");
  expect(drawn.lines.map(({ label }) => label)).toEqual(["a", "b"]);
  expect(drawn.band).toBeUndefined();
});

it("offers an alert rule per curve in the metric's unit", () => {
  const { watched } = drawing(chart("language", "waits"), [line("trainer/waiting_share", [1, 2], [0.5, 0.25])]);
  expect(watched.map(({ metric, run, label }) => [metric, run, label])).toEqual([
    ["rolldeck/trainer/waiting_share", "a", "trainer waiting for data"],
    ["rolldeck/fleet/waiting_share", "a", "workers held by limits"],
  ]);
  expect(watched[0]?.values).toEqual([0.5, 0.25]);
});
