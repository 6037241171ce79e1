/** Colour channels of tokens, and tokens as text. Pure. */

import type { CSSProperties } from "react";
import { visible } from "@/format";

export const CHANNELS = ["mask", "logprob", "advantage", "surprise"] as const;
export type Channel = (typeof CHANNELS)[number];

export type TokenValues = { isOwn: boolean; logprob: number | null; advantage: number | null };

export const LABELS: Record<Channel, string> = {
  mask: "Mask",
  logprob: "Logprob",
  advantage: "Advantage",
  surprise: "Surprise",
};

/** Logprob thresholds of the levels: 90 %, 50 %, 20 %, 5 % and 1 % likely. */
const LIKELY = [0.9, 0.5, 0.2, 0.05, 0.01].map(Math.log);
/** Thresholds of a surprising token: less likely than 1 in 7, 1 in 20, 1 in 100. */
const SURPRISING = [-2, -2.996, -4.605];

function steps(value: number, marks: readonly number[]): number {
  return marks.filter((mark) => value < mark).length;
}

/** The level of a token in a channel; empty without a value. */
export function levelOf(values: TokenValues, channel: Channel): string {
  if (channel === "mask") return values.isOwn ? "own" : "";
  if (channel === "advantage") {
    if (values.advantage === null || values.advantage === 0 || !values.isOwn) return values.isOwn ? "own" : "";
    const size = Math.abs(values.advantage) > 1 ? 3 : Math.abs(values.advantage) > 0.25 ? 2 : 1;
    return values.advantage > 0 ? `gain${size}` : `loss${size}`;
  }
  if (values.logprob === null) return "";
  if (channel === "logprob") return `rare${steps(values.logprob, LIKELY)}`;
  const size = steps(values.logprob, SURPRISING);
  return size > 0 ? `odd${size}` : "";
}

const lookOf = (tone: number, share: number, mark = 0): CSSProperties =>
  ({ "--tone": `var(--chart-${tone})`, "--share": `${share}%`, "--mark": `${-mark}px` }) as CSSProperties;

/** How each level looks: its colour and share of it, and a line below, so that colour is never the only sign. */
export const LOOKS: Record<string, CSSProperties> = {
  own: lookOf(3, 20),
  ...Object.fromEntries([4, 13, 24, 36, 48, 60].map((share, level) => [`rare${level}`, lookOf(2, share, Math.max(0, level - 2))])),
  ...Object.fromEntries([1, 2, 3].map((size) => [`gain${size}`, lookOf(1, 14 * size)])),
  ...Object.fromEntries([1, 2, 3].map((size) => [`loss${size}`, lookOf(2, 16 * size)])),
  ...Object.fromEntries([1, 2, 3].map((size) => [`odd${size}`, lookOf(4, 17 * size, size)])),
};

/** The legend of a channel: level and meaning, in order. */
export const LEGEND: Record<Channel, [string, string][]> = {
  mask: [
    ["own", "trained on"],
    ["", "prompt and tools: not trained on"],
  ],
  logprob: [
    ["rare0", "> 90 %"],
    ["rare1", "> 50 %"],
    ["rare2", "> 20 %"],
    ["rare3", "> 5 %"],
    ["rare4", "> 1 %"],
    ["rare5", "rarer"],
  ],
  advantage: [
    ["loss3", "< −1"],
    ["loss1", "below 0"],
    ["own", "0"],
    ["gain1", "above 0"],
    ["gain3", "> 1"],
  ],
  surprise: [
    ["odd1", "< 1 in 7"],
    ["odd2", "< 1 in 20"],
    ["odd3", "< 1 in 100"],
  ],
};

/** The next channel. */
export function nextChannel(channel: Channel): Channel {
  return CHANNELS[(CHANNELS.indexOf(channel) + 1) % CHANNELS.length] ?? "mask";
}

/** The next (or previous) position in an ordered list, wrapping around; null if empty. */
export function neighbour(places: readonly number[], at: number, direction: 1 | -1): number | null {
  if (places.length === 0) return null;
  if (direction === 1) return places.find((place) => place > at) ?? places[0] ?? null;
  return places.findLast((place) => place < at) ?? places.at(-1) ?? null;
}

/** The text with symbols for line breaks and tabs; the breaks themselves are kept. */
export function tokenText(text: string): string {
  return visible(text).replace(/\t/g, "\u21e5\t").replace(/\n/g, "\u23ce\n");
}
