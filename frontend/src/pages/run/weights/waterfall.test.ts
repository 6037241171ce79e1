import { expect, it } from "vitest";
import { waterfallOf } from "./waterfall";

const version = { epoch: 1, step: 3, published_at: "2026-01-01T00:00:00Z" };
const row = (worker: number, announced: number | null, staged: number | null, active: number | null, step = 3) => {
  const at = (seconds: number | null) => (seconds === null ? null : `2026-01-01T00:00:${String(seconds).padStart(2, "0")}Z`);
  return { epoch: 1, step, worker, announced_at: at(announced), staged_at: at(staged), active_at: at(active) };
};

it("counts from publication and names the slowest worker", () => {
  const { bars, seconds, slowest, missing } = waterfallOf(version, [row(0, 1, 2, 3), row(1, 1, 4, 9), row(0, 0, 0, 0, 2)]);
  expect(bars.map((bar) => [bar.worker, bar.announced, bar.staged, bar.active])).toEqual([
    [0, 1, 2, 3],
    [1, 1, 4, 9],
  ]);
  expect([seconds, slowest?.worker, missing]).toEqual([9, 1, 0]);
});
it("counts workers that never loaded it", () => {
  const { slowest, last, missing } = waterfallOf(version, [row(0, 1, null, null), row(1, 1, 2, 2)]);
  expect([slowest, last?.worker, missing]).toEqual([null, 1, 1]);
});
it("handles no workers", () => {
  expect(waterfallOf(version, [])).toEqual({ bars: [], seconds: 1, slowest: null, last: null, missing: 0 });
});
it("names no slowest worker within the report interval", () => {
  const { slowest, last } = waterfallOf(version, [row(0, 0, 0, 0), row(1, 0, 0, 0)]);
  expect([slowest, last?.worker]).toEqual([null, 0]);
  expect(waterfallOf(version, [row(0, 0, 0, 2), row(1, 0, 0, 2.9)]).slowest).toBeNull();
  expect(waterfallOf(version, [row(0, 0, 0, 2), row(1, 0, 0, 3)]).slowest?.worker).toBe(1);
});
