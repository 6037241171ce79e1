import { describe, expect, it } from "vitest";
import { CHANNELS, LEGEND, lookOf, neighbour, nextChannel, tokenText } from "@/pages/viewer/channels";

const values = { isOwn: true, logprob: -0.05, advantage: 0.5 };

describe("colours", () => {
  const shares = (looks: ReturnType<typeof lookOf>[]) => looks.map((look) => Number(/ (\d+)%/.exec(String(look?.background))?.[1]));
  const tones = (looks: ReturnType<typeof lookOf>[]) => looks.map((look) => /--chart-\d/.exec(String(look?.background))?.[0]);

  it("mark trained tokens", () => {
    expect(tones([lookOf(values, "mask"), lookOf({ ...values, isOwn: false }, "mask")])).toEqual(["--chart-3", undefined]);
  });
  it("increase with the surprise of a token, with a line below rare ones", () => {
    const looks = [-0.05, -0.5, -1, -2, -4].map((logprob) => lookOf({ ...values, logprob }, "logprob"));
    expect(shares(looks)).toEqual([4, 24, 36, 52, 60]);
    expect(looks.map((look) => look?.boxShadow !== undefined)).toEqual([false, false, false, false, true]);
  });
  it("distinguish positive and negative advantages, also by a line", () => {
    const looks = [2, 0.25, 0, -0.25, -2].map((advantage) => lookOf({ ...values, advantage }, "advantage"));
    expect(tones(looks)).toEqual(["--chart-1", "--chart-1", "--chart-3", "--chart-2", "--chart-2"]);
    expect(shares(looks)).toEqual([48, 24, 20, 24, 48]);
    expect(looks.map((look) => look?.boxShadow !== undefined)).toEqual([false, false, false, true, true]);
  });
  it("are absent without a value", () => {
    const unknown = { isOwn: false, logprob: null, advantage: null };
    expect(CHANNELS.map((channel) => lookOf(unknown, channel))).toEqual([undefined, undefined, undefined]);
  });
  it("cycle, and all have a legend", () => {
    expect([nextChannel("mask"), nextChannel("advantage")]).toEqual(["logprob", "mask"]);
    expect(CHANNELS.every((channel) => LEGEND[channel].length > 0)).toBe(true);
  });
});

it("shows and keeps breaks and tabs of a token", () => expect(tokenText("a\n\t")).toBe("a⏎\n⇥\t"));

it("wraps around to the next position", () => {
  expect([neighbour([3, 9], -1, 1), neighbour([3, 9], 3, 1), neighbour([3, 9], 9, 1)]).toEqual([3, 9, 3]);
  expect([neighbour([3, 9], 9, -1), neighbour([3, 9], 3, -1), neighbour([], 3, 1)]).toEqual([3, 9, null]);
});
