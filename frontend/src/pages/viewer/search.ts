/** URL parameters of the viewer: the originating list and the current view. */

import { CHANNELS, type Channel } from "@/pages/viewer/channels";
import { sideOf } from "@/pages/viewer/sides";
import { type SampleSearch, sampleSearch } from "@/samples/search";

export const VIEWS = ["messages", "tokens", "diff", "versions", "raw"] as const;
export type View = (typeof VIEWS)[number];

export const VIEW_LABELS: Record<View, string> = {
  messages: "Messages",
  tokens: "Tokens",
  diff: "Group diff",
  versions: "Over versions",
  raw: "Raw",
};

export const ORDERS = ["score", "index", "length"] as const;
export type Order = (typeof ORDERS)[number];

export type ViewerSearch = SampleSearch & {
  view?: View;
  seq?: number;
  token?: number;
  color?: Channel;
  /** For the group diff: the sort order, and the first token if it is not the divergence. */
  order?: Exclude<Order, "score">;
  first?: number;
  /** What the group diff compares, if not text. */
  unit?: "tokens";
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
  const [seq, token, first] = [whole(search.seq), whole(search.token), whole(search.first)];
  if (view) found.view = view;
  if (seq !== undefined) found.seq = seq;
  if (token !== undefined) found.token = token;
  if (color && color !== "mask") found.color = color;
  if (first !== undefined) found.first = first;
  if (search.order === "index" || search.order === "length") found.order = search.order;
  if (search.unit === "tokens") found.unit = "tokens";
  for (const side of ["left", "right"] as const) if (sideOf(search[side])) found[side] = search[side] as string;
  return found;
}

/** The index of a worker named `w3` or `w3@9f2c`; null for other names. */
export function workerIndex(name: string): number | null {
  const found = /^w(\d{1,9})(@|$)/.exec(name);
  return found ? Number(found[1]) : null;
}
