/** Say what may be done to many runs. Pure. */

import type { ActedOn, Action } from "@/api/runLists";

export type Deed = { action: Action; label: string; does: string; destroys: boolean };

export const DEEDS: Deed[] = [
  { action: "pause", label: "Pause", does: "Nothing new is generated; what was made is still accepted and served.", destroys: false },
  { action: "resume", label: "Resume", does: "Paused runs go on.", destroys: false },
  { action: "drain", label: "Drain", does: "Open episodes finish, the queue is served until empty, then they complete.", destroys: true },
  { action: "stop", label: "Stop", does: "They drain for 30 seconds at most, then stop.", destroys: true },
  { action: "tag", label: "Add a tag", does: "The tag is added to those that lack it.", destroys: false },
  { action: "untag", label: "Remove a tag", does: "The tag is removed from those that have it.", destroys: false },
  {
    action: "archive",
    label: "Archive",
    does: "Runs that are over leave the lists and free their names. Nothing is deleted; is:archived finds them.",
    destroys: true,
  },
  { action: "unarchive", label: "Unarchive", does: "Archived runs return to the lists and can be changed again.", destroys: false },
];

/** What became of them, in one sentence. */
export function summary(results: ActedOn[]): string {
  const refused = results.filter(({ problem }) => problem).length;
  const done = results.length - refused;
  const runs = (n: number) => (n === 1 ? "1 run" : `${n.toLocaleString("en-US")} runs`);
  if (refused === 0) return `Done for ${runs(done)}.`;
  return `Done for ${runs(done)}; not for ${runs(refused)}:`;
}
