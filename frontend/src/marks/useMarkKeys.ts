/** Single-key shortcuts that mark the focused row. */

import { useMark } from "@/api/marks";
import { useMayOperate } from "@/api/session";
import { LABELS, labelOfAll, type Mark, type MarkChange, MOST_AT_ONCE } from "@/marks/marks";
import { useShortcuts } from "@/shell/keyboard";

type Marked = { id: number; mark: Mark | null };

function focused(groups: Marked[]): Marked | undefined {
  const row = document.activeElement?.closest("[data-group]");
  return groups.find(({ id }) => String(id) === row?.getAttribute("data-group"));
}

/** `1`–`9` label the focused row, `0` clears its label; with a selection they apply to all selected rows. */
export function useMarkKeys(run: string, groups: Marked[], chosen: Marked[] = []) {
  const mayOperate = useMayOperate();
  const marking = useMark(run);
  const mark = (change: (meant: Marked[]) => MarkChange) => () => {
    const group = focused(groups);
    const meant = chosen.length > 0 ? chosen : group ? [group] : [];
    if (!mayOperate || meant.length === 0 || meant.length > MOST_AT_ONCE) return;
    marking.mutate({ groups: meant.map(({ id }) => id), ...change(meant) });
  };
  const labelled = (digit: number) => (meant: Marked[]) => ({ label: digit === 0 || labelOfAll(meant) === digit ? null : digit });
  const digits = [0, ...LABELS].map((digit) => [String(digit), mark(labelled(digit))]);
  useShortcuts(Object.fromEntries(digits));
  return marking;
}
