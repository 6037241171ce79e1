/** What the metrics tab keeps in its address. Pure. */

import type { MetricAxis, Span } from "@/api/metrics";

export type MetricsSearch = {
  q?: string;
  x?: MetricAxis;
  from?: number;
  to?: number;
  /** Weight of the moving average; absent: none. */
  smooth?: number;
  /** Runs drawn beside this one, comma-separated. */
  with?: string;
};

const place = (value: unknown): number | undefined => (typeof value === "number" && value >= 0 && Number.isFinite(value) ? value : undefined);
const AXES: readonly unknown[] = ["step", "time", "amount"];
const RUNS_BESIDE = 19;

/** Read an address; what makes no sense is left out. */
export function metricsSearch(search: Record<string, unknown>): MetricsSearch {
  const from = place(search.from);
  const to = place(search.to);
  const smooth = place(search.smooth);
  const isSpan = from !== undefined && to !== undefined && from < to;
  return {
    q: typeof search.q === "string" || typeof search.q === "number" ? String(search.q) : undefined,
    x: AXES.includes(search.x) && search.x !== "step" ? (search.x as MetricAxis) : undefined,
    from: isSpan ? from : undefined,
    to: isSpan ? to : undefined,
    smooth: smooth !== undefined && smooth > 0 && smooth < 1 ? smooth : undefined,
    with: typeof search.with === "string" && search.with ? search.with : undefined,
  };
}

export function spanOf({ from, to }: MetricsSearch): Span | undefined {
  return from === undefined || to === undefined ? undefined : { from, to };
}

/** The run itself and those beside it, each once. */
export function runsOf(run: string, search: MetricsSearch): string[] {
  const beside = (search.with ?? "").split(",").map((name) => name.trim()).filter(Boolean);
  return [...new Set([run, ...beside.slice(0, RUNS_BESIDE)])];
}
