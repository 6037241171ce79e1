/** Names and ranges of charts in an address; names of runs and metrics never contain a comma. Pure. */

import type { Span } from "@/api/metrics";
import type { MetricAxis } from "@/api/types";

export function namesOf(text: string | undefined): string[] {
  const names = (text ?? "").split(",").map((name) => name.trim());
  return [...new Set(names.filter(Boolean))];
}

/** The URL parameter for names; undefined if empty. */
export function wordOf(names: readonly string[]): string | undefined {
  return names.length > 0 ? [...new Set(names)].join(",") : undefined;
}

/** Toggle a name in a list. */
export function toggled(names: readonly string[], name: string): string[] {
  return names.includes(name) ? names.filter((other) => other !== name) : [...names, name];
}

/** The hidden names that leave one name visible; none if it is the only visible one already. */
export function isolated(all: readonly string[], hidden: readonly string[], name: string): string[] {
  const others = all.filter((other) => other !== name);
  const isAlone = !hidden.includes(name) && others.every((other) => hidden.includes(other));
  return isAlone ? [] : others;
}

/** Toggle a name in a URL parameter. */
export function switched(text: string | undefined, name: string, isOn: boolean): string | undefined {
  const others = namesOf(text).filter((other) => other !== name);
  return wordOf(isOn ? [...others, name] : others);
}

/** A position on an axis; only elapsed time allows values below 0 (before the start). */
export function placeOn(axis: MetricAxis | undefined, value: unknown): number | undefined {
  const isPlace = typeof value === "number" && Number.isFinite(value) && (axis === "elapsed" || value >= 0);
  return isPlace ? value : undefined;
}

export type Ends = { from?: number; to?: number };

/** Both ends of the range, or neither. */
export function endsOn(axis: MetricAxis | undefined, search: Record<string, unknown>): Ends {
  const [from, to] = [placeOn(axis, search.from), placeOn(axis, search.to)];
  return from !== undefined && to !== undefined && from < to ? { from, to } : { from: undefined, to: undefined };
}

export function spanOf({ from, to }: Ends): Span | undefined {
  return from === undefined || to === undefined ? undefined : { from, to };
}
