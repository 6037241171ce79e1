/** Convert between the URL of a comparison and a saved report. Pure. */

import { namesOf, wordOf } from "@/charts/names";
import type { Comparison, NewComparison } from "@/pages/compare/api";
import { type CompareSearch, METRICS_AT_MOST, runsOf } from "./search";

type View = NewComparison["view"];

/** The saved fields; includes the shown metrics even if none were selected. */
export function viewOfSearch(search: CompareSearch, metrics: readonly string[]): View {
  const shown = metrics.slice(0, METRICS_AT_MOST);
  const isRange = search.from !== undefined && search.to !== undefined;
  return {
    runs: runsOf(search),
    metrics: shown,
    x: search.x ?? "step",
    begin: isRange ? (search.from ?? null) : null,
    end: isRange ? (search.to ?? null) : null,
    smooth: search.smooth ?? 0,
    logarithmic: namesOf(search.log).filter((name) => shown.includes(name)),
    hidden: namesOf(search.hide).filter((name) => runsOf(search).includes(name)),
    config: search.config ?? "differing",
    prompt: search.prompt ?? null,
  };
}

/** URL parameters of a saved comparison. */
export function searchOfComparison({ id, view }: Comparison): CompareSearch {
  const { runs, metrics, x, begin, end, smooth, logarithmic, hidden, config, prompt } = view;
  return {
    runs: wordOf(runs),
    m: metrics && metrics.length > 0 ? wordOf(metrics) : undefined,
    x: x === "step" ? undefined : x,
    from: begin ?? undefined,
    to: end ?? undefined,
    smooth: smooth || undefined,
    log: logarithmic && logarithmic.length > 0 ? wordOf(logarithmic) : undefined,
    hide: hidden && hidden.length > 0 ? wordOf(hidden) : undefined,
    config: config === "all" ? "all" : undefined,
    prompt: prompt ?? undefined,
    report: id,
  };
}
