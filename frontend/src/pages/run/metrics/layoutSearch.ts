/** Convert between URL parameters and saved layouts. Pure. */

import { namesOf, wordOf } from "@/charts/names";
import type { MetricLook } from "@/pages/run/metrics/layoutsApi";
import type { MetricsSearch } from "./search";

/** The URL parameters that belong to a layout; excludes the zoom range and compared runs. */
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

/** The URL parameters of a layout; complete, so that no previous value remains. */
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

/** Whether the URL parameters match a layout. */
export function looksAs(search: MetricsSearch, look: Partial<MetricLook>): boolean {
  return JSON.stringify(lookOf(search)) === JSON.stringify(lookOf(searchOf(look)));
}
