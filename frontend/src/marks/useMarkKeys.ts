/** Mark the row that has the focus, by single keys. */

import type { GroupSummary } from "@/api/groups";
import { useMark } from "@/api/marks";
import { useMayOperate } from "@/api/session";
import { LABELS, labelAfter } from "@/marks/marks";
import { useShortcuts } from "@/shell/keyboard";

function focused(groups: GroupSummary[]): GroupSummary | undefined {
  const row = document.activeElement?.closest("[data-group]");
  return groups.find(({ id }) => String(id) === row?.getAttribute("data-group"));
}

/** `1`–`9` label the row under the focus, `0` clears it, `b` pins it. */
export function useMarkKeys(run: string, groups: GroupSummary[]) {
  const mayOperate = useMayOperate();
  const marking = useMark(run);
  const mark = (change: (group: GroupSummary) => Parameters<typeof marking.mutate>[0]) => () => {
    const group = mayOperate ? focused(groups) : undefined;
    if (group) marking.mutate(change(group));
  };
  const digits = [0, ...LABELS].map((digit) => [String(digit), mark((group) => ({ groups: [group.id], label: labelAfter(group.mark, digit) }))]);
  useShortcuts({ ...Object.fromEntries(digits), b: mark((group) => ({ groups: [group.id], is_pinned: !group.mark?.is_pinned })) });
  return marking;
}
