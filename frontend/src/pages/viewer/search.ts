/** URL parameters of the viewer: the originating list and the current view. */

import { CHANNELS, type Channel } from "@/pages/viewer/channels";
import { sideOf } from "@/pages/viewer/sides";
import { type SampleSearch, sampleSearch } from "@/samples/search";

export const VIEWS = ["messages", "tokens", "diff", "versions"] as const;
export type View = (typeof VIEWS)[number];

export const VIEW_LABELS: Record<View, string> = {
  messages: "Messages",
  tokens: "Tokens",
  diff: "Group diff",
  versions: "Over versions",
};

export type ViewerSearch = SampleSearch & {
  view?: View;
  seq?: number;
  token?: number;
  color?: Channel;
  /** The compared sequences, as `group/sequence` or `run/group/sequence`. */
  left?: string;
  right?: string;
};

function whole(value: unknown): number | undefined {
  const found = typeof value === "string" && value !== "" ? Number(value) : value;
  return typeof found === "number" && Number.isInteger(found) && found >= 0 ? found : undefined;
}

export function viewerSearch(search: Record<string, unknown>): ViewerSearch {
  const found: ViewerSearch = sampleSearch(search);
  const view = VIEWS.find((each) => each === search.view);
  const color = CHANNELS.find((each) => each === search.color);
  const [seq, token] = [whole(search.seq), whole(search.token)];
  if (view) found.view = view;
  if (seq !== undefined) found.seq = seq;
  if (token !== undefined) found.token = token;
  if (color && color !== "mask") found.color = color;
  for (const side of ["left", "right"] as const) if (sideOf(search[side])) found[side] = search[side] as string;
  return found;
}

/** The index of a worker named `w3` or `w3@9f2c`; null for other names. */
export function workerIndex(name: string): number | null {
  const found = /^w(\d{1,9})(@|$)/.exec(name);
  return found ? Number(found[1]) : null;
}

type Ranked = { score: number | null; tokens: number };

/**
 * The index of the sequence that determined the group's rank in its list: the worst when sorted by lowest
 * scores, the best by highest, the longest by length; else the first.
 */
export function firstShown(sort: string | undefined, sequences: Ranked[]): number {
  const rank: Record<string, (one: Ranked) => number | null> = {
    "-score": ({ score }) => score,
    score: ({ score }) => (score === null ? null : -score),
    "-length": ({ tokens }) => tokens,
  };
  const of = rank[sort ?? ""];
  if (!of) return 0;
  const values = sequences.map((one) => of(one) ?? Number.NEGATIVE_INFINITY);
  return Math.max(0, values.indexOf(Math.max(...values)));
}
