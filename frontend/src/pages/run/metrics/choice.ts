/** Convert between URL parameters of the metrics tab and the remembered choice. Pure. */

import { namesOf, wordOf } from "@/charts/names";
import type { ChoiceView } from "@/pages/run/useRememberedChoice";
import type { MetricsSearch } from "./search";

/** The URL parameters that are remembered; filters, ranges and compared runs are not. */
const REMEMBERED = ["pin", "log", "panels", "x", "smooth"] as const;

export function choiceOf({ pin, log, panels, x, smooth }: MetricsSearch): ChoiceView {
  return { metrics: namesOf(pin), logarithmic: namesOf(log), panels: panels ?? [], x: x ?? "step", smooth: smooth ?? 0 };
}

/** The URL parameters of a choice; complete, so that no previous value remains. */
export function searchOfChoice({ metrics, logarithmic, panels, x, smooth }: ChoiceView): MetricsSearch {
  return {
    pin: wordOf(metrics),
    log: wordOf(logarithmic),
    panels: panels.length > 0 ? panels : undefined,
    x: x === "step" ? undefined : x,
    smooth: smooth || undefined,
  };
}

const isEmpty = (search: MetricsSearch): boolean => Object.values(search).every((value) => value === undefined);

/** The parameters that a remembered choice adds to an address; null if the address has its own or the choice is the default. */
export function recalled(search: MetricsSearch, choice: ChoiceView | undefined): MetricsSearch | null {
  if (!choice || !isEmpty(search)) return null;
  const found = searchOfChoice(choice);
  return isEmpty(found) ? null : found;
}

/** Whether a change of the address changes the remembered choice. */
export function isChosen(change: Partial<MetricsSearch>): boolean {
  return REMEMBERED.some((name) => name in change);
}

/** Whether an address shows the default metrics and axes. */
export function isDefault(search: MetricsSearch): boolean {
  return REMEMBERED.every((name) => search[name] === undefined);
}
