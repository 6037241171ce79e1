/** Decide which runs a filter shows. Pure. */

import type { RunRow } from "@/api/types";

/** The environment of a run in few words: `CartPole-v1`; a language run its lessons; an outside run names none. */
export function environmentOf(run: RunRow): string {
  const configured = (run.config?.environment as { spec?: unknown } | undefined)?.spec;
  const spec = run.environment ?? (typeof configured === "string" ? configured : null);
  if (spec) return spec.replace(/^gymnasium:/, "");
  return run.kind === "outside" ? "outside" : "–";
}

/** Whether a run has every word of the filter; `state:paused` asks for its state alone. */
export function matches(run: RunRow, filter: string): boolean {
  const text = `${run.name} ${environmentOf(run)} ${run.status} ${run.created_by ?? ""}`.toLowerCase();
  return filter
    .toLowerCase()
    .split(/\s+/)
    .filter(Boolean)
    .every((word) => (word.startsWith("state:") ? run.status.startsWith(word.slice(6)) : text.includes(word)));
}
