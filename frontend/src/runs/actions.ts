/** The actions on runs, in the header of a run, the list of runs and the palette. Pure. */

import type { Action } from "@/api/runs";
import type { LedgerPart, RunSummary, RunVerb } from "@/api/types";
import { counted, inUnit, number } from "@/format";
import { unitOf } from "@/runs/queued";
import type { ShownRun } from "@/runs/rows";

/** Requests on one run; reset is not a state transition but starts a new run. */
export type Verb = RunVerb | "reset";

type Look = {
  label: string;
  does: string;
  /** Needs a confirmation because it cannot be undone. */
  destroys?: boolean;
  /** Requires typing the run's name, or the number of runs, and giving a reason. */
  typed?: boolean;
  /** Drops the data that no trainer has received. */
  drops?: boolean;
};

export const ACTIONS: Record<Verb | Action, Look> = {
  start: { label: "Start", does: "Launches a fleet for this run and keeps its history." },
  pause: {
    label: "Pause",
    does: "Stops workers, and outside environments at their next status request. Existing data is still accepted and served.",
  },
  resume: { label: "Resume", does: "Workers and outside environments resume generating." },
  drain: { label: "Drain", does: "Finishes open episodes, serves the queue until it is empty, and completes the run.", destroys: true },
  stop: {
    label: "Stop",
    destroys: true,
    typed: true,
    drops: true,
    does: "Drains for at most 30 s; remaining data is dropped and counted.",
  },
  kill: {
    label: "Kill",
    destroys: true,
    typed: true,
    drops: true,
    does: "Stops the fleet immediately. Data in flight or queued is dropped and counted.",
  },
  reset: {
    label: "Reset",
    destroys: true,
    typed: true,
    does: "Archives this run with all its data and starts a new one under the same name. Environments and trainers must register again.",
  },
  tag: { label: "Add a tag", does: "Adds a tag to runs that do not have it." },
  untag: { label: "Remove a tag", does: "Removes a tag from runs that have it." },
  archive: {
    label: "Archive",
    destroys: true,
    does: "Hides ended runs from the lists and frees their names. Nothing is deleted; is:archived finds them.",
  },
  unarchive: { label: "Unarchive", does: "Returns archived runs to the lists and makes them editable." },
  delete: {
    label: "Delete",
    destroys: true,
    typed: true,
    does: "Deletes ended runs with all their data. This cannot be undone.",
  },
};

/** The actions on several runs. */
export const BULK: readonly Action[] = ["pause", "resume", "drain", "stop", "tag", "untag", "archive", "unarchive", "delete"];

/** The data that an action on a run would drop now: `24 sequences are queued now, 8 are leased to trainers.`; empty if it drops none. */
export function droppedText(verb: Verb, { kind }: Pick<RunSummary, "kind">, ledger: LedgerPart | undefined): string {
  if (!ACTIONS[verb].drops || !ledger) return "";
  const unit = unitOf(kind);
  const { queued, waiting, leased } = ledger[unit];
  const held = queued + waiting;
  if (held + leased === 0) return `No ${unit} are queued or leased now.`;
  return `${inUnit(held, unit)} ${held === 1 ? "is" : "are"} queued now, ${number(leased)} ${leased === 1 ? "is" : "are"} leased to trainers.`;
}

/** The same of several runs, from the loaded rows: `512 sequences of 3 runs are queued now.` */
export function droppedOfAll(action: Action, rows: Pick<ShownRun, "kind" | "queued">[], runs: number): string {
  if (!ACTIONS[action].drops) return "";
  const holding = rows.filter(({ queued }) => queued);
  const parts = (["sequences", "fragments"] as const).flatMap((unit) => {
    const amount = holding.filter(({ kind }) => unitOf(kind) === unit).reduce((sum, { queued }) => sum + (queued ?? 0), 0);
    return amount ? [inUnit(amount, unit)] : [];
  });
  const scope = runs > rows.length ? `, in the ${counted(rows.length, "run")} loaded of ${counted(runs, "run")}` : "";
  if (parts.length === 0) return `No data is queued now${scope}.`;
  return `${parts.join(" and ")} of ${counted(holding.length, "run")} are queued now${scope}.`;
}
