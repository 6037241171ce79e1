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

export type ViewerSearch = GroupQuery & {
  view?: View;
  seq?: number;
  token?: number;
  color?: Channel;
};

function whole(value: unknown): number | undefined {
  const found = typeof value === "string" && value !== "" ? Number(value) : value;
  return typeof found === "number" && Number.isInteger(found) && found >= 0 ? found : undefined;
}

export function viewerSearch(search: Record<string, unknown>): ViewerSearch {
  const found: ViewerSearch = listSearch(search);
  const view = VIEWS.find((each) => each === search.view);
  const color = CHANNELS.find((each) => each === search.color);
  const [seq, token] = [whole(search.seq), whole(search.token)];
  if (view) found.view = view;
  if (seq) found.seq = seq;
  if (token !== undefined) found.token = token;
  if (color && color !== "mask") found.color = color;
  return found;
}

/** The place in its fleet of a worker called `w3` or `w3@9f2c`; null of one that belongs to none. */
export function workerIndex(name: string): number | null {
  const found = /^w(\d{1,9})(@|$)/.exec(name);
  return found ? Number(found[1]) : null;
}
