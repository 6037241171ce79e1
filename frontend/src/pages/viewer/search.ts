/** What the address says of the viewer: the list one came from, and what of the group is shown. */

import type { GroupQuery } from "@/api/groups";
import { listSearch } from "@/pages/run/trajectories/search";
import { CHANNELS, type Channel } from "@/pages/viewer/channels";

export const VIEWS = ["messages", "tokens", "diff", "timeline", "raw"] as const;
export type View = (typeof VIEWS)[number];

export const VIEW_LABELS: Record<View, string> = {
  messages: "Messages",
  tokens: "Tokens",
  diff: "Group diff",
  timeline: "Timeline",
  raw: "Raw",
};

export const ORDERS = ["score", "index", "length"] as const;
export type Order = (typeof ORDERS)[number];

export type ViewerSearch = GroupQuery & {
  view?: View;
  seq?: number;
  token?: number;
  color?: Channel;
  /** Of the group diff: how its rows are sorted, and its first token where that is not where they part. */
  order?: Exclude<Order, "score">;
  first?: number;
};

function whole(value: unknown): number | undefined {
  const found = typeof value === "string" && value !== "" ? Number(value) : value;
  return typeof found === "number" && Number.isInteger(found) && found >= 0 ? found : undefined;
}

export function viewerSearch(search: Record<string, unknown>): ViewerSearch {
  const found: ViewerSearch = listSearch(search);
  const view = VIEWS.find((each) => each === search.view);
  const color = CHANNELS.find((each) => each === search.color);
  const [seq, token, first] = [whole(search.seq), whole(search.token), whole(search.first)];
  if (view) found.view = view;
  if (seq !== undefined) found.seq = seq;
  if (token !== undefined) found.token = token;
  if (color && color !== "mask") found.color = color;
  if (first !== undefined) found.first = first;
  if (search.order === "index" || search.order === "length") found.order = search.order;
  return found;
}

/** The place in its fleet of a worker called `w3` or `w3@9f2c`; null of one that belongs to none. */
export function workerIndex(name: string): number | null {
  const found = /^w(\d{1,9})(@|$)/.exec(name);
  return found ? Number(found[1]) : null;
}
