import { describe, expect, it } from "vitest";
import {
  ageSeconds,
  bytes,
  count,
  counted,
  duration,
  elapsed,
  number,
  percent,
  policyStep,
  preciseDuration,
  shortId,
  utc,
  visible,
} from "./format";

describe("numbers", () => {
  it("rounds to three significant digits and groups thousands", () => {
    expect(number(182.345)).toBe("182");
    expect(number(4.567)).toBe("4.57");
    expect(number(0.01234)).toBe("0.0123");
    expect(number(12400)).toBe("12,400");
    expect(number(0.00000698)).toBe("6.98e-6");
    expect(number(-0.0001)).toBe("-1e-4");
    expect(number(0)).toBe("0");
    expect(number(9_007_199_254_740_991)).toBe("9,007,199,254,740,991");
    expect(number(-1e308)).toBe("-1e+308");
  });
  it("shows missing values as missing", () => {
    expect(number(null)).toBe("–");
    expect(number(Number.NaN)).toBe("–");
    expect(count(undefined)).toBe("–");
  });
  it("are followed by their noun", () => {
    expect([0, 1, 12_400].map((workers) => counted(workers, "worker"))).toEqual(["0 workers", "1 worker", "12,400 workers"]);
    expect(counted(2, "batch", "batches")).toBe("2 batches");
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

it.each([
  ["a\u202Eb\u0000", "a⟨U+202E⟩b⟨U+0000⟩"],
  ["soft\u00adhyphen \u061c \u2028 \u2063 \u3164", "soft⟨U+00AD⟩hyphen ⟨U+061C⟩ ⟨U+2028⟩ ⟨U+2063⟩ ⟨U+3164⟩"],
  ["a\u200bb\ufeff", "a⟨U+200B⟩b⟨U+FEFF⟩"],
  ["\x1b[31mred", "⟨U+001B⟩[31mred"],
  ["tag\u{e0041}", "tag⟨U+E0041⟩"],
  ["half \ud800 pair", "half ⟨U+D800⟩ pair"],
  ["ro\u200dot", "ro⟨U+200D⟩ot"],
  ["word\ufe0f", "word⟨U+FE0F⟩"],
])("makes invisible and control characters visible in %j", (text, shown) => expect(visible(text)).toBe(shown));

it("leaves visible text unchanged", () => {
  const text = "é 日本 😀 ❤️ <script>\tline\nnext";
  expect(visible(text)).toBe(text);
  const joined = "\u{1f469}\u{1f3fd}\u200d\u{1f52c} \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u0915\u094d\u200d\u0937";
  expect(visible(joined)).toBe(joined);
});

it("formats durations to three digits", () => {
  expect([0.0001, 0.25, 1.234, 210, 9000, 345_600].map(preciseDuration)).toEqual(["< 1 ms", "250 ms", "1.23 s", "3.5 min", "2.5 h", "4 d"]);
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
