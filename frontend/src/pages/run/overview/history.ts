/** Remember what only the newest value of is sent, from when the page was opened. */

import { useRef } from "react";
import type { Column } from "@/charts/columns";

const POINTS_KEPT = 3600;

export type History = { x: number[]; values: Column[] };

/** Append a value for each column at a server time; a time not later than the last one is ignored. */
export function remember(history: History, at: string | null, values: (number | null)[]): History {
  const x = at ? Date.parse(at) / 1000 : Number.NaN;
  const last = history.x.at(-1) ?? -Infinity;
  if (!(x > last)) return history;
  return {
    x: [...history.x, x].slice(-POINTS_KEPT),
    values: values.map((value, i) => [...(history.values[i] ?? []), value].slice(-POINTS_KEPT)),
  };
}

/** The values given so far, one point for each change of `source`. */
export function useHistory(source: unknown, at: string | null, values: (number | null)[]): History {
  const seen = useRef<unknown>(undefined);
  const history = useRef<History>({ x: [], values: values.map(() => []) });
  if (source !== undefined && source !== seen.current) {
    seen.current = source;
    history.current = remember(history.current, at, values);
  }
  return history.current;
}
