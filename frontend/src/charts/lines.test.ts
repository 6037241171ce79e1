import { expect, it } from "vitest";
import type { MetricLine } from "@/api/types";
import { bucketSheet, drawn, gapsOf, smoothed, widthOf } from "@/charts/lines";
import { csvText } from "./sheet";

const line = (given: Partial<MetricLine>): MetricLine => ({
  run: "a",
  name: "loss",
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

it("merges lines onto one ascending x", () => {
  const found = drawn([line({ x: [1, 3], last: [10, 30] }), line({ x: [2, 3], last: [2, null] })]);
  expect(found.x).toEqual([1, 2, 3]);
  expect(found.last).toEqual([
    [10, undefined, 30],
    [undefined, 2, null],
  ]);
  expect(found.band).toBeNull();
});

it("draws a band for buckets of several samples", () => {
  const wide = line({ is_exact: false, x: [7, 15], last: [1, 2], min: [0, 1], max: [1000, 3], mean: [9, 2], count: [8, 8] });
  expect(drawn([wide]).band).toEqual({ low: [0, 1], high: [1000, 3] });
});

it("smooths with bias correction and keeps gaps", () => {
  expect(smoothed([4, undefined, 4, null, 4], 0.9)).toEqual([4, undefined, 4, null, 4]);
  expect(smoothed([0, 1], 0.5)[1]).toBeCloseTo(2 / 3);
  expect(smoothed([1, 2, 3], 0)).toEqual([1, 2, 3]);
});

it("exports samples and buckets", () => {
  const exact = line({ x: [1, 2], last: [0.5, null] });
  const wide = line({ run: "b", is_exact: false, x: [9], last: [2], min: [1], max: [5], mean: [3], count: [4], gaps: [1] });
  expect(csvText(bucketSheet([exact, wide], "step")).split("\n")).toEqual([
    "run,name,step,last,min,max,mean,count,gaps",
    "a,loss,1,0.5,0.5,0.5,0.5,1,0",
    "a,loss,2,,,,,1,1",
    "b,loss,9,2,1,5,3,4,1",
    "",
  ]);
});

it("counts non-finite values", () => {
  expect(gapsOf([line({ nans: 2 }), line({ infinities: 1 })])).toBe("2 NaN, 1 infinite");
  expect(gapsOf([line({})])).toBe("");
});

it("describes the bucket width", () => {
  expect(widthOf([line({})], "steps")).toBe("");
  expect(widthOf([line({}), line({ is_exact: false, bucket: 16 })], "steps")).toBe("each point covers 16 steps");
  expect(widthOf([line({ is_exact: false, bucket: 1 })], "train steps")).toBe("every sample; those of one step share a point");
  expect(widthOf([line({ is_exact: false, bucket: 1e-6 })], "s")).toBe("every sample; those of one moment share a point");
});
