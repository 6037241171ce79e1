import { describe, expect, it } from "vitest";
import { CHANNELS, LEGEND, LOOKS, levelOf, neighbour, nextChannel, tokenText } from "@/pages/viewer/channels";

const values = { isOwn: true, logprob: -0.05, advantage: 0.5 };

describe("colours", () => {
  it("mark trained tokens", () => {
    expect([levelOf(values, "mask"), levelOf({ ...values, isOwn: false }, "mask")]).toEqual(["own", ""]);
  });
  it.each([
    [-0.05, "rare0"],
    [-0.5, "rare1"],
    [-1, "rare2"],
    [-2, "rare3"],
    [-4, "rare4"],
    [-9, "rare5"],
  ])("increase with the surprise of a token: %f", (logprob, level) => expect(levelOf({ ...values, logprob }, "logprob")).toBe(level));
  it("distinguish positive and negative advantages", () => {
    expect([2, 0.5, 0.1, 0, -0.1, -0.5, -2].map((advantage) => levelOf({ ...values, advantage }, "advantage"))).toEqual([
      "gain3",
      "gain2",
      "gain1",
      "own",
      "loss1",
      "loss2",
      "loss3",
    ]);
  });
  it("mark surprising tokens only", () => {
    expect([-1, -2.5, -4, -6].map((logprob) => levelOf({ ...values, logprob }, "surprise"))).toEqual(["", "odd1", "odd2", "odd3"]);
  });
  it("are empty without a value", () => {
    const unknown = { isOwn: false, logprob: null, advantage: null };
    expect(CHANNELS.map((channel) => levelOf(unknown, channel))).toEqual(["", "", "", ""]);
  });
  it("cycle", () => {
    expect(nextChannel("mask")).toBe("logprob");
    expect(nextChannel("surprise")).toBe("mask");
  });
  it("all have a legend, and each level a look", () => {
    expect(CHANNELS.every((channel) => LEGEND[channel].length > 0)).toBe(true);
    for (const [level] of CHANNELS.flatMap((channel) => LEGEND[channel])) expect(level === "" || level in LOOKS).toBe(true);
  });
});

it("shows and keeps breaks and tabs of a token", () => expect(tokenText("a\n\t")).toBe("a⏎\n⇥\t"));

it("wraps around to the next position", () => {
  expect([neighbour([3, 9], -1, 1), neighbour([3, 9], 3, 1), neighbour([3, 9], 9, 1)]).toEqual([3, 9, 3]);
  expect([neighbour([3, 9], 9, -1), neighbour([3, 9], 3, -1), neighbour([], 3, 1)]).toEqual([3, 9, null]);
});
