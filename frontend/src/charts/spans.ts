/** Read from an address over which axis a chart is drawn, and which part of it is looked at. Pure. */

import type { MetricAxis, Span } from "@/api/metrics";

const AXES: readonly unknown[] = ["step", "time", "elapsed", "amount"];

/** An axis other than train steps, over which a chart is drawn if nothing is said. */
export function axisOf(value: unknown): MetricAxis | undefined {
  return AXES.includes(value) && value !== "step" ? (value as MetricAxis) : undefined;
}

/** A place on an axis; only since a run began are there places below 0: what was before. */
export function placeOn(axis: MetricAxis | undefined, value: unknown): number | undefined {
  const isPlace = typeof value === "number" && Number.isFinite(value) && (axis === "elapsed" || value >= 0);
  return isPlace ? value : undefined;
}

export type Ends = { from?: number; to?: number };

/** Both ends of what is looked at, or neither. */
export function endsOn(axis: MetricAxis | undefined, search: Record<string, unknown>): Ends {
  const [from, to] = [placeOn(axis, search.from), placeOn(axis, search.to)];
  return from !== undefined && to !== undefined && from < to ? { from, to } : { from: undefined, to: undefined };
}

export function spanOf({ from, to }: Ends): Span | undefined {
  return from === undefined || to === undefined ? undefined : { from, to };
}
