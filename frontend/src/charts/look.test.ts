import { describe, expect, it } from "vitest";
import { centralRange, lookOf, lookText, pauses } from "./look";

describe("the look of a chart", () => {
  it("is the same after a link", () => {
    const look = { isLog: true, isLogX: true, isClipped: true, isLarge: true, low: -0.5, high: 1e6, x: "a,b:c", hidden: ["max", "95 %"] };
    expect(lookText(look)).toBe("log,logx,clip,large,from:-0.5,to:1000000,x:a%2Cb%3Ac,hide:max,hide:95%20%25");
    expect(lookOf(lookText(look))).toEqual(look);
    expect(lookText({})).toBeUndefined();
  });

  it("drops unknown parts of a text", () => {
    expect(lookOf("log,constructor,from:,to:x,from:Infinity,__proto__,x:%,hide:")).toEqual({ isLog: true });
    expect(lookOf(7)).toEqual({});
  });
});

it("the central range leaves out the extreme hundredth on each side", () => {
  const values = [...Array.from({ length: 100 }, (_, i) => i), null, Number.NaN, 1e9];
  expect(centralRange([values])).toEqual([1, 99]);
  expect(centralRange([[null, undefined]])).toBeNull();
  expect(centralRange([[5]])).toEqual([5, 5]);
});

it("a pause is much longer than the usual distance of samples, and than a minute", () => {
  const x = [0, 10, 20, 30, 400, 410, 420];
  expect(pauses(x, [1, 2, 3, 4, 5, 6, 7])).toEqual([[3, 4]]);
  expect(pauses(x, [1, null, undefined, 4, 5, 6, 7])).toEqual([[3, 4]]);
  expect(pauses([0, 1, 2, 50], [1, 2, 3, 4])).toEqual([]);
  expect(pauses([0], [1])).toEqual([]);
  expect(pauses([0, 500], [1, 2])).toEqual([]);
});
