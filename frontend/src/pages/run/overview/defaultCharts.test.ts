import { expect, it } from "vitest";
import type { MetricLine } from "@/api/types";
import { askAgainMs, type DefaultChart, defaultChartsOf, drawing, namesOf, watchablesOf } from "./defaultCharts";
import { overviewSearch } from "./search";

const line = (name: string, given: Partial<MetricLine>): MetricLine => ({
  run: "a",
  name: `rolldeck/${name}`,
  samples: 0,
  nans: 0,
  infinities: 0,
  bucket: 1,
  is_exact: true,
  x: [],
  last: [],
  x_first: [],
  min: [],
  max: [],
  mean: [],
  count: [],
  gaps: [],
  ...given,
});
const chart = (kind: Parameters<typeof defaultChartsOf>[0], key: string): DefaultChart =>
  defaultChartsOf(kind).find((one) => one.key === key) as DefaultChart;

it("has eight charts for every kind of run, each with an empty text", () => {
  for (const kind of ["fleet", "language", "outside"] as const) {
    const charts = defaultChartsOf(kind);
    expect(charts).toHaveLength(8);
    expect(new Set(charts.map(({ title }) => title)).size).toBe(8);
    expect(charts.every(({ empty }) => empty.endsWith("."))).toBe(true);
  }
});

it("begins with the return of every kind of run", () => {
  expect((["fleet", "language", "outside"] as const).map((kind) => defaultChartsOf(kind)[0]?.title)).toEqual([
    "Return",
    "Reward",
    "Reward",
  ]);
});

it("requests a chart's lines and band together", () => {
  expect(namesOf(chart("outside", "reward"))).toEqual(
    ["reward/mean", "reward/p50", "reward/p10", "reward/p90"].map((name) => `rolldeck/${name}`),
  );
});

it("draws the percentile band and the newest value", () => {
  const found = ["reward/p90", "reward/mean", "reward/p10"].map((name, i) => line(name, { x: [1, 2], last: [i, i + 10] }));
  const drawn = drawing(chart("fleet", "reward"), found);
  expect(drawn.x).toEqual([1, 2]);
  expect(drawn.lines.map(({ label, values }) => [label, values])).toEqual([["mean", [1, 11]]]);
  expect(drawn.band).toEqual({ low: [2, 12], high: [0, 10], label: "p10 – p90" });
  expect(drawn.newest).toBe(11);
});

it("shows the mean of buckets, or the maximum where configured", () => {
  const wide = { is_exact: false, x: [9], last: [1], mean: [3], max: [8], min: [0] };
  const staleness = [line("staleness/p50", wide), line("staleness/p95", wide)];
  expect(drawing(chart("fleet", "staleness"), staleness).lines.map(({ values }) => values)).toEqual([[3], [8]]);
});

it("scales shares to percent and omits unmeasured lines", () => {
  const drawn = drawing(chart("outside", "variance"), [line("zero_variance_share", { x: [5], last: [0.25] })]);
  expect(drawn.lines.map(({ label, values }) => [label, values])).toEqual([["zero variance", [25]]]);
  expect(drawing(chart("outside", "variance"), []).newest).toBeNull();
});

it("offers an alert rule per curve in the metric's unit", () => {
  const waits = chart("language", "waits");
  const drawn = drawing(waits, [line("trainer/waiting_share", { x: [1, 2], last: [0.5, 0.25] })]);
  const [trainer, workers] = watchablesOf(waits, "pole", drawn);
  expect([trainer?.metric, trainer?.run, trainer?.label]).toEqual(["rolldeck/trainer/waiting_share", "pole", "trainer waiting for data"]);
  expect([trainer?.valueAt(0), trainer?.valueAt(null), trainer?.valueAt(7)]).toEqual([0.5, 0.25, null]);
  expect([workers?.metric, workers?.valueAt(null)]).toEqual(["rolldeck/fleet/waiting_share", null]);
});

it("refetches bucketed charts less often", () => {
  expect(askAgainMs(undefined)).toBe(askAgainMs([line("a", {})]));
  expect(askAgainMs([line("a", { is_exact: false })])).toBeGreaterThan(askAgainMs([]));
});

it("keeps axis and range in the URL, time as the default", () => {
  const address = { x: "amount", from: 1, to: 5, pick: "rolldeck/reward/mean", at: 3 };
  expect(overviewSearch({ ...address, q: "loss" })).toEqual(address);
  expect(Object.values(overviewSearch({ x: "time", from: 5, to: 1 })).filter((v) => v !== undefined)).toEqual([]);
});
