import { describe, expect, it } from "vitest";
import { ageSeconds, bytes, count, duration, elapsed, finePercent, number, percent, policyStep, shortId, utc, visible } from "./format";

describe("numbers", () => {
  it("rounds to three significant digits and groups thousands", () => {
    expect(number(182.345)).toBe("182");
    expect(number(4.567)).toBe("4.57");
    expect(number(0.01234)).toBe("0.0123");
    expect(number(12400)).toBe("12,400");
    expect(number(0.00000698)).toBe("6.98e-6");
    expect(number(-0.0001)).toBe("-1e-4");
    expect(number(0)).toBe("0");
  });
  it("shows missing values as missing", () => {
    expect(number(null)).toBe("–");
    expect(number(Number.NaN)).toBe("–");
    expect(count(undefined)).toBe("–");
  });
  it("shortens large counts", () => {
    expect(count(950)).toBe("950");
    expect(count(12_400)).toBe("12.4 k");
    expect(count(3_100_000)).toBe("3.1 M");
  });
});

describe("sizes and fractions", () => {
  it("are short and keep their unit", () => {
    expect([0, 512, 1_400, 83_000_000, 1_414_000_000].map(bytes)).toEqual(["0 B", "512 B", "1.4 kB", "83 MB", "1.41 GB"]);
    expect([0, 0.714, 2.5].map(percent)).toEqual(["0 %", "71 %", "250 %"]);
    expect([0, 0.00714, 1].map(finePercent)).toEqual(["0 %", "0.714 %", "100 %"]);
  });
  it("are missing if unknown", () => {
    expect([bytes(null), percent(undefined)]).toEqual(["–", "–"]);
  });
});

describe("ages", () => {
  it("use suitable units", () => {
    expect(duration(0.42)).toBe("0.4 s");
    expect(duration(59.9)).toBe("59 s");
    expect(duration(185)).toBe("3 min");
    expect(duration(7500)).toBe("2 h 05");
    expect(duration(4 * 86_400 + 3)).toBe("4 d");
  });
  it("are unknown for invalid times and never negative", () => {
    const now = Date.parse("2026-01-01T00:00:10Z");
    expect(ageSeconds("2026-01-01T00:00:04Z", now)).toBe(6);
    expect(ageSeconds("2026-01-01T00:00:14Z", now)).toBe(0);
    expect(ageSeconds("yesterday-ish", now)).toBeNull();
    expect(ageSeconds(null, now)).toBeNull();
    expect(utc("nonsense")).toBe("unknown time");
  });
});

it("names the two policy steps before training", () => {
  expect(policyStep(-2)).toBe("none yet");
  expect(policyStep(-1)).toBe("bootstrap");
  expect(policyStep(0)).toBe("0");
});

it("makes control and direction characters visible", () => {
  expect(visible("a\u202Eb\u0000")).toBe("a⟨U+202E⟩b⟨U+0000⟩");
  expect(visible("<b>plain</b>\n")).toBe("<b>plain</b>\n");
  expect(visible("soft\u00adhyphen \u061c \u2028 \u2063 \u3164")).toBe("soft⟨U+00AD⟩hyphen ⟨U+061C⟩ ⟨U+2028⟩ ⟨U+2063⟩ ⟨U+3164⟩");
  expect(visible("tag\u{e0041}, é 日本 😀 ❤️")).toBe("tag⟨U+E0041⟩, é 日本 😀 ❤️");
});

describe("elapsed time", () => {
  it("is formatted to the second, with a sign if negative", () => {
    expect([0, 7, 750, 7500, 273_600, -65, 0.25].map(elapsed)).toEqual([
      "0:00",
      "0:07",
      "12:30",
      "2:05:00",
      "3 d 04:00:00",
      "−1:05",
      "0.25 s",
    ]);
  });
});

it("shortens the ids of workers and env slots", () => {
  expect(shortId("w1@1-a12c82c7-71b0d9")).toBe("w1");
  expect(shortId("w1-3@1-a12c82c7-71b0d9")).toBe("w1-3");
  expect(shortId("w3")).toBe("w3");
  expect(shortId("@odd")).toBe("@odd");
});
