/** Place users' annotations and run events on charts. Pure. */

import type { MetricAxis } from "@/api/types";
import type { Mark } from "@/charts/model";
import type { Annotations } from "@/pages/run/annotations";

type Placed = { at: string; step: number | null; amount: number | null };

const PLACE: Record<MetricAxis, (placed: Placed, beganAt: string) => number | null> = {
  time: ({ at }) => Date.parse(at) / 1000,
  elapsed: ({ at }, beganAt) => (Date.parse(at) - Date.parse(beganAt)) / 1000,
  step: ({ step }) => step,
  amount: ({ amount }) => amount,
};

export type Shown = "all" | "notes" | "none";

/** The marks of a run on one axis; those without a position on it are omitted. */
export function marksOf(found: Annotations | undefined, axis: MetricAxis, beganAt: string, shown: Shown): Mark[] {
  if (!found || shown === "none") return [];
  const place = (placed: Placed): number | null => PLACE[axis](placed, beganAt);
  const notes = found.results.map((row): Mark | null => {
    const x = place(row);
    return x === null ? null : { x, text: `${row.text} (${row.created_by})`, role: "note" };
  });
  const events = (shown === "all" ? found.events : []).map((row): Mark | null => {
    const x = place(row);
    return x === null ? null : { x, text: row.message, role: row.kind === "weights_version" ? "version" : "event" };
  });
  return [...events, ...notes].filter((mark) => mark !== null);
}
