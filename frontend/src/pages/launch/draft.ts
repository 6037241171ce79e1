/** Form drafts that survive a reload, one per start: a preset, or the cloned run. */

import type { Answers } from "@/forms/rows";

/** `open` lists the names of the open sections. */
export type Draft = { name: string; answers: Answers; open?: string[] };

function keyOf(start: string): string {
  return `rolldeck-launch:${start}`;
}

export function loadDraft(start: string): Draft | null {
  try {
    const draft = JSON.parse(localStorage.getItem(keyOf(start)) ?? "null") as Draft | null;
    return draft && typeof draft.name === "string" && typeof draft.answers === "object" ? draft : null;
  } catch {
    return null;
  }
}

export function saveDraft(start: string, draft: Draft | null): void {
  try {
    if (draft) localStorage.setItem(keyOf(start), JSON.stringify(draft));
    else localStorage.removeItem(keyOf(start));
  } catch {
    // Without storage the form works; it only forgets.
  }
}
