/** Read what the address of the logs asks for. Pure. */

import { LEVELS, type Level } from "./levels";

type LogsSearch = {
  /** The log that is open: `manager`, `2`, `2.1`. */
  log?: string;
  /** A moment to look at, in seconds since 1970. */
  at?: number;
  /** Lines that matter less are left out. */
  level?: Level;
};

export function logsSearch(search: Record<string, unknown>): LogsSearch {
  const { log, at } = search;
  return {
    log: typeof log === "string" || typeof log === "number" ? String(log) : undefined,
    at: typeof at === "number" && Number.isFinite(at) && at > 0 ? at : undefined,
    level: LEVELS.find((level) => level === search.level),
  };
}
