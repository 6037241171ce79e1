/** Saved views of the list of runs, in this browser. */

import { type RunsSearch, runsSearch } from "@/runs/search";

export type View = { name: string; look: RunsSearch };

const KEY = "rolldeck-views";
const VIEWS_AT_MOST = 30;
const LETTERS_AT_MOST = 60;

const isText = (value: unknown): value is string => typeof value === "string";

/** Parse the stored views; invalid ones are dropped. */
export function parsed(kept: string | null): View[] {
  let found: unknown;
  try {
    found = JSON.parse(kept ?? "[]");
  } catch {
    return [];
  }
  if (!Array.isArray(found)) return [];
  return found.flatMap((each: unknown): View[] => {
    const { name, look } = (each ?? {}) as { name?: unknown; look?: Record<string, unknown> };
    if (!isText(name) || !name || typeof look !== "object" || look === null) return [];
    return [{ name, look: runsSearch(look) }];
  });
}

/** Add a view; replaces one with the same name. */
export function withView(views: View[], name: string, look: RunsSearch): View[] {
  const named = name.trim().slice(0, LETTERS_AT_MOST);
  if (!named) return views;
  return [...views.filter((view) => view.name !== named), { name: named, look }].slice(-VIEWS_AT_MOST);
}

export function readViews(): View[] {
  try {
    return parsed(localStorage.getItem(KEY));
  } catch {
    return [];
  }
}

export function saveViews(views: View[]): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(views));
  } catch {
    // They hold until the page is closed.
  }
}
