/** Bulk actions on runs. Pure. */

import type { ActedOn, Action } from "@/api/runLists";
import { counted } from "@/format";

export type BulkAction = { action: Action; label: string; does: string; destroys: boolean };

export const BULK_ACTIONS: BulkAction[] = [
  { action: "pause", label: "Pause", does: "Stops generating new data; existing data is still accepted and served.", destroys: false },
  { action: "resume", label: "Resume", does: "Paused runs resume.", destroys: false },
  {
    action: "drain",
    label: "Drain",
    does: "Finishes open episodes, serves the queue until it is empty, then completes the runs.",
    destroys: true,
  },
  { action: "stop", label: "Stop", does: "Drains for at most 30 s, then stops.", destroys: true },
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

/** The result of a bulk action, as a sentence. */
export function summary(results: ActedOn[]): string {
  const refused = results.filter(({ problem }) => problem).length;
  const done = results.length - refused;
  if (refused === 0) return `Done for ${counted(done, "run")}.`;
  return `Done for ${counted(done, "run")}; failed for ${counted(refused, "run")}:`;
}
