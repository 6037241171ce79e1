/** Colour channels of tokens, and tokens as text. Pure. */

import type { CSSProperties } from "react";
import { visible } from "@/format";

export const CHANNELS = ["mask", "logprob", "advantage"] as const;
export type Channel = (typeof CHANNELS)[number];

export type TokenValues = { isOwn: boolean; logprob: number | null; advantage: number | null };

export const LABELS: Record<Channel, string> = { mask: "Mask", logprob: "Logprob", advantage: "Advantage" };

/** Less likely than 1 in 20. */
const RARE = Math.log(0.05);
const STEP = 4;

/** A share of a colour, and a line below, so that colour is never the only sign. */
function mixed(tone: number, percent: number, isMarked = false): CSSProperties {
  const colour = `var(--chart-${tone})`;
  const share = STEP * Math.round(percent / STEP);
  return {
    background: `color-mix(in srgb, ${colour} ${share}%, transparent)`,
    boxShadow: isMarked ? `inset 0 -2px ${colour}` : undefined,
  };
}

/** How a token looks in a channel: stronger the less likely it is, or the further its advantage is from 0. */
export function lookOf({ isOwn, logprob, advantage }: TokenValues, channel: Channel): CSSProperties | undefined {
  if (channel === "logprob") return logprob === null ? undefined : mixed(2, 60 * (1 - Math.exp(logprob)), logprob < RARE);
  if (!isOwn) return undefined;
  if (channel === "mask" || !advantage) return mixed(3, 20);
  return mixed(advantage > 0 ? 1 : 2, 16 + 32 * Math.min(1, Math.abs(advantage)), advantage < 0);
}

const likely = (share: number): TokenValues => ({ isOwn: true, logprob: Math.log(share), advantage: null });
const valued = (advantage: number, isOwn = true): TokenValues => ({ isOwn, logprob: null, advantage });

/** The legend of a channel: values and their meaning, in order. */
export const LEGEND: Record<Channel, [TokenValues, string][]> = {
  mask: [
    [valued(0), "trained on"],
    [valued(0, false), "prompt and tools: not trained on"],
  ],
  logprob: [
    [likely(0.99), "99 % likely"],
    [likely(0.5), "50 %"],
    [likely(0.1), "10 %"],
    [likely(0.04), "< 5 %"],
  ],
  advantage: [
    [valued(-1), "−1 or less"],
    [valued(-0.1), "below 0"],
    [valued(0), "0"],
    [valued(0.1), "above 0"],
    [valued(1), "1 or more"],
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
export const tokenText = (text: string): string => visible(text).replace(/\t/g, "\u21e5\t").replace(/\n/g, "\u23ce\n");
