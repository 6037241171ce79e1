/** Group sizes that wait for complements. Pure. */

import type { QueueAnswer } from "@/api/types";

type Waiting = Pick<QueueAnswer["environments"][number], "waiting_sizes" | "group_size">;

/** For example `2 × 3 + 1 × 1 = 7 of 8 sequences`; empty if none wait. */
export function incompleteText({ waiting_sizes, group_size }: Waiting): string {
  const sizes = Object.entries(waiting_sizes)
    .map(([size, groups]) => ({ size: Number(size), groups }))
    .filter(({ groups }) => groups > 0)
    .sort((a, b) => b.size - a.size);
  if (sizes.length === 0) return "";
  const total = sizes.reduce((sum, { size, groups }) => sum + size * groups, 0);
  const sum = sizes.map(({ size, groups }) => `${groups} × ${size}`).join(" + ");
  // If no sizes add up exactly, more than one group's worth may wait.
  return group_size === null ? `${sum} sequences` : `${sum} = ${total} sequences, for groups of ${group_size}`;
}
