/** Read what an event says was changed. Pure. */

import type { RunEvent } from "@/api/types";

export type Revision = { name: string; before: string; after: string };

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

function words(value: unknown): string {
  if (value === null || value === undefined) return "none";
  return typeof value === "string" ? value || "empty" : JSON.stringify(value);
}

/** The values that an event changed, each as it was and as it is. */
export function revisionOf(event: Pick<RunEvent, "details">): Revision[] {
  return Object.entries(event.details).flatMap(([name, value]) =>
    isRecord(value) && "before" in value && "after" in value ? [{ name, before: words(value.before), after: words(value.after) }] : [],
  );
}
