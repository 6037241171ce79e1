/** URL parameters of the logs tab. Pure. */

import type { FleetPlace } from "@/pages/run/logs/api";
import { LEVELS, type Level } from "./levels";

export type LogsSearch = {
  /** The process whose log is open: `manager`, `2` for worker 2, `2.1` for its slot 1. */
  log?: string;
  /** The linked moment, in seconds since 1970. */
  at?: number;
  /** Minimum shown level. */
  level?: Level;
  /** The text or expression that the open log is searched for. */
  words?: string;
};

export function textOf({ worker, slot }: FleetPlace): string {
  if (worker === null) return "manager";
  return slot === null ? String(worker) : `${worker}.${slot}`;
}

/** Null if invalid. */
export function processOf(text = ""): FleetPlace | null {
  if (text === "manager") return { worker: null, slot: null };
  const found = /^(\d+)(?:\.(\d+))?$/.exec(text);
  return found ? { worker: Number(found[1]), slot: found[2] === undefined ? null : Number(found[2]) } : null;
}

export function logsSearch(search: Record<string, unknown>): LogsSearch {
  const { log, at, words } = search;
  return {
    log: typeof log === "string" || typeof log === "number" ? String(log) : undefined,
    at: typeof at === "number" && Number.isFinite(at) && at > 0 ? at : undefined,
    level: LEVELS.find((level) => level === search.level),
    words: (typeof words === "string" && words !== "") || typeof words === "number" ? String(words).slice(0, 200) : undefined,
  };
}
