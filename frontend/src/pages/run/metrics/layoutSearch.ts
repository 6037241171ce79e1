/** Convert between URL parameters and saved layouts. Pure. */

import { namesOf, wordOf } from "@/charts/names";
import type { MetricView } from "@/pages/run/metrics/layoutsApi";
import type { MetricsSearch } from "./search";

/** The URL parameters that belong to a layout; excludes the zoom range and compared runs. */
export function viewOf({ q, under, x, smooth, pin, log, panels }: MetricsSearch): MetricView {
  return {
    search: q ?? "",
    under: under ?? "",
    x: x ?? "step",
    smooth: smooth ?? 0,
    pinned: namesOf(pin),
    logarithmic: namesOf(log),
    panels: panels ?? [],
  };
}

/** The URL parameters of a layout; complete, so that no previous value remains. */
export function searchOf({ search, under, x, smooth, pinned = [], logarithmic = [], panels = [] }: Partial<MetricView>): MetricsSearch {
  return {
    q: search || undefined,
    under: under || undefined,
    x: x === "step" ? undefined : x,
    smooth: smooth || undefined,
    pin: wordOf(pinned),
    log: wordOf(logarithmic),
    panels: panels.length > 0 ? panels : undefined,
  };
}

/** Whether the URL parameters match a layout. */
export function isSameView(search: MetricsSearch, view: Partial<MetricView>): boolean {
  return JSON.stringify(viewOf(search)) === JSON.stringify(viewOf(searchOf(view)));
}
