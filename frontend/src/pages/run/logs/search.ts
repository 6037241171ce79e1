/** URL parameters of the logs tab. Pure. */

import { LEVELS, type Level } from "./levels";

type LogsSearch = {
  /** The open log: `manager`, `2`, `2.1`. */
  log?: string;
  /** The linked moment, in seconds since 1970. */
  at?: number;
  /** Minimum shown level. */
  level?: Level;
  /** The text or expression that the open log is searched for. */
  words?: string;
};

export function logsSearch(search: Record<string, unknown>): LogsSearch {
  const { log, at, words } = search;
  return {
    log: typeof log === "string" || typeof log === "number" ? String(log) : undefined,
    at: typeof at === "number" && Number.isFinite(at) && at > 0 ? at : undefined,
    level: LEVELS.find((level) => level === search.level),
    words: (typeof words === "string" && words !== "") || typeof words === "number" ? String(words).slice(0, 200) : undefined,
  };
}
