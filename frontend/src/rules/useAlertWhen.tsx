import { type ReactNode, useState } from "react";
import type { ChartAction } from "@/charts/model";
import { onDemand } from "@/components/onDemand";
import type { RuleStart } from "@/rules/RuleDialog";

const RuleDialog = onDemand(() => import("@/rules/RuleDialog"), "default");

/** A metric drawn by a chart, with its value at an index. */
export type Watchable = { metric: string; run?: string; label?: string; valueAt: (index: number | null) => number | null | undefined };

/** Chart menu entries that create a rule from the shown metric, and their dialog. */
export function useAlertWhen(watchables: readonly Watchable[]): { actions: ChartAction[]; dialog: ReactNode } {
  const [start, setStart] = useState<RuleStart | null>(null);
  const actions = watchables.map(
    ({ metric, run, label, valueAt }): ChartAction => ({
      label: label && watchables.length > 1 ? `Alert when ${label}…` : "Alert when…",
      act: (index) => {
        const value = valueAt(index);
        // Rounded to the resolution of the axis.
        setStart({ metric, run, threshold: typeof value === "number" ? Number(value.toPrecision(3)) : null });
      },
    }),
  );
  return { actions, dialog: start && <RuleDialog start={start} onClose={() => setStart(null)} /> };
}
