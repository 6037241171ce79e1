/** Read, change and reset the metrics that the user chose last, in this browser. */

import { useLocalStorage } from "@mantine/hooks";
import type { RunKind } from "@/pages/run/metricOrder";

/** Charts and axes of a page. */
export type ChoiceView = {
  /** Pinned metrics of the metrics page, or charts of a comparison; empty: the defaults. */
  metrics: string[];
  x: "step" | "elapsed" | "time" | "amount";
  smooth: number;
  logarithmic: string[];
  /** Regular expressions; each defines a chart of the metrics with matching names. */
  panels: string[];
};
/** Kind of the runs; `mixed` for a comparison of several kinds. */
export type ChoiceKind = RunKind | "mixed";

export type RememberedChoice = {
  choice: ChoiceView | undefined;
  remember: (view: ChoiceView) => void;
  /** Delete the choice, so that the page shows its defaults. */
  forget: () => void;
};

const EMPTY: ChoiceView = { metrics: [], x: "step", smooth: 0, logarithmic: [], panels: [] };

/** The user's last choice on a page for one kind of run. */
export function useRememberedChoice(page: "metrics" | "compare", kind: ChoiceKind): RememberedChoice {
  const [choice, remember, forget] = useLocalStorage<ChoiceView | undefined>({
    key: `rolldeck-choice-${page}-${kind}`,
    getInitialValueInEffect: false,
    deserialize: parsed,
  });
  return { choice, remember, forget };
}

/** A stored choice; undefined for a text of another version or program. */
function parsed(text: string | undefined): ChoiceView | undefined {
  try {
    const value: unknown = JSON.parse(text ?? "null");
    return value && typeof value === "object" ? { ...EMPTY, ...value } : undefined;
  } catch {
    return undefined;
  }
}
