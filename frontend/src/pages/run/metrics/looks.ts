/** Turn what an address asks for into a layout that is kept, and back. Pure. */

import type { MetricLook } from "@/api/layouts";
import { namesOf, wordOf } from "@/charts/names";
import type { MetricsSearch } from "./search";

/** What of an address belongs to a layout; the place that is looked at and the runs beside do not. */
export function lookOf({ q, under, x, smooth, pin, log, panels }: MetricsSearch): MetricLook {
  return {
    words: q ?? "",
    under: under ?? "",
    x: x ?? "step",
    smooth: smooth ?? 0,
    pinned: namesOf(pin),
    logarithmic: namesOf(log),
    panels: panels ?? [],
  };
}

/** The part of an address that a layout says; all of it is named, so that nothing of before stays. */
export function searchOf({ words, under, x, smooth, pinned = [], logarithmic = [], panels = [] }: Partial<MetricLook>): MetricsSearch {
  return {
    q: words || undefined,
    under: under || undefined,
    x: x === "step" ? undefined : x,
    smooth: smooth || undefined,
    pin: wordOf(pinned),
    log: wordOf(logarithmic),
    panels: panels.length > 0 ? panels : undefined,
  };
}

/** Whether an address looks as a layout says. */
export function looksAs(search: MetricsSearch, look: Partial<MetricLook>): boolean {
  return JSON.stringify(lookOf(search)) === JSON.stringify(lookOf(searchOf(look)));
}
