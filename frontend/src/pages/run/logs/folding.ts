/** Combine repeated events so that rare ones stay visible. Pure. */

import type { RunEvent } from "@/api/types";

export type Folded = { event: RunEvent; times: number; firstAt: string };

/** Events newest first; adjacent events of one kind and actor that need no attention are combined. */
export function fold(events: RunEvent[]): Folded[] {
  const folded: Folded[] = [];
  for (const event of events) {
    const last = folded.at(-1);
    const repeats =
      last?.event.kind === event.kind &&
      last.event.actor === event.actor &&
      [last.event, event].every(({ level, reason }) => level === "info" && !reason);
    if (repeats) folded[folded.length - 1] = { ...last, event, times: last.times + 1 };
    else folded.push({ event, times: 1, firstAt: event.at });
  }
  return folded.reverse();
}
