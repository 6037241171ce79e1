/** Convert between URL parameters of the comparison and the remembered choice. Pure. */

import { namesOf, wordOf } from "@/charts/names";
import type { RunKind } from "@/pages/run/metricOrder";
import type { ChoiceKind, ChoiceView } from "@/pages/run/useRememberedChoice";
import type { CompareSearch } from "./search";

/** The URL parameters that are remembered. */
const REMEMBERED = ["m", "log", "x", "smooth"] as const;
/** Parameters that select data, not charts. */
const OF_RUNS: ReadonlySet<string> = new Set(["runs", "hide"]);

/** The kind under which a choice is stored. */
export function kindOf(kinds: readonly RunKind[]): ChoiceKind {
  return kinds.length === 1 && kinds[0] ? kinds[0] : "mixed";
}

export function choiceOf({ m, log, x, smooth }: CompareSearch): ChoiceView {
  return { metrics: namesOf(m), logarithmic: namesOf(log), panels: [], x: x ?? "step", smooth: smooth ?? 0 };
}

/**
 * The parameters that a remembered choice adds to an address; null if the address has its own or the choice is the default.
 *
 * `known` are the metrics of the runs; those that none of them has are omitted. Null: not all are known.
 */
export function recalled(search: CompareSearch, choice: ChoiceView | undefined, known: ReadonlySet<string> | null): CompareSearch | null {
  const isBare = Object.entries(search).every(([name, value]) => value === undefined || OF_RUNS.has(name));
  if (!choice || !isBare) return null;
  const isHere = (name: string) => known === null || known.has(name);
  const found: CompareSearch = {
    m: wordOf(choice.metrics.filter(isHere)),
    log: wordOf(choice.logarithmic.filter(isHere)),
    x: choice.x === "step" ? undefined : choice.x,
    smooth: choice.smooth || undefined,
  };
  return isDefault(found) ? null : found;
}

/** Whether a change of the address changes the remembered choice. */
export function isChosen(change: Partial<CompareSearch>): boolean {
  return REMEMBERED.some((name) => name in change);
}

/** Whether an address shows the default metrics and axes. */
export function isDefault(search: CompareSearch): boolean {
  return REMEMBERED.every((name) => search[name] === undefined);
}
