/** Bulk actions on runs. Pure. */

import type { ActedOn, Action } from "@/api/runLists";
import { counted } from "@/format";
import { unitOf } from "@/runs/queued";
import type { ShownRun } from "@/runs/rows";

export type BulkAction = {
  action: Action;
  label: string;
  does: string;
  destroys: boolean;
  /** Drops data: requires typing the number of runs and giving a reason. */
  drops?: boolean;
};

export const BULK_ACTIONS: BulkAction[] = [
  { action: "pause", label: "Pause", does: "Stops generating new data; existing data is still accepted and served.", destroys: false },
  { action: "resume", label: "Resume", does: "Paused runs resume.", destroys: false },
  {
    action: "drain",
    label: "Drain",
    does: "Finishes open episodes, serves the queue until it is empty, then completes the runs.",
    destroys: true,
  },
  {
    action: "stop",
    label: "Stop",
    does: "Drains for at most 30 s, then stops; remaining data is dropped and counted.",
    destroys: true,
    drops: true,
  },
  { action: "tag", label: "Add a tag", does: "Adds a tag to runs that do not have it.", destroys: false },
  { action: "untag", label: "Remove a tag", does: "Removes a tag from runs that have it.", destroys: false },
  {
    action: "archive",
    label: "Archive",
    does: "Hides ended runs from the lists and frees their names. Nothing is deleted; is:archived finds them.",
    destroys: true,
  },
  { action: "unarchive", label: "Unarchive", does: "Returns archived runs to the lists and makes them editable.", destroys: false },
];

/** The data that an action would drop now, from the loaded rows: `512 sequences of 3 runs are queued now.`; empty if it drops none. */
export function droppedText({ drops }: BulkAction, rows: Pick<ShownRun, "kind" | "queued">[], runs: number): string {
  if (!drops) return "";
  const holding = rows.filter(({ queued }) => queued);
  const parts = (["sequences", "fragments"] as const).flatMap((unit) => {
    const amount = holding.filter(({ kind }) => unitOf(kind) === unit).reduce((sum, { queued }) => sum + (queued ?? 0), 0);
    return amount ? [counted(amount, unit.slice(0, -1))] : [];
  });
  const scope = runs > rows.length ? `, in the ${counted(rows.length, "run")} loaded of ${counted(runs, "run")}` : "";
  if (parts.length === 0) return `No data is queued now${scope}.`;
  return `${parts.join(" and ")} of ${counted(holding.length, "run")} are queued now${scope}.`;
}

/** The result of a bulk action, as a sentence. */
export function summary(results: ActedOn[]): string {
  const refused = results.filter(({ problem }) => problem).length;
  const done = results.length - refused;
  if (refused === 0) return `Done for ${counted(done, "run")}.`;
  return `Done for ${counted(done, "run")}; failed for ${counted(refused, "run")}:`;
}
