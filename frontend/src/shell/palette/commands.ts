/** Commands of the open page, and recently opened runs. */

import { readLocalStorageValue } from "@mantine/hooks";
import { useEffect, useRef } from "react";

export type Command = {
  /** Unique within the list. */
  id: string;
  group: "This page" | "Tabs" | "Go to" | "Projects" | "Runs";
  title: string;
  /** Additional search terms. */
  words?: string;
  /** Shown beside the title. */
  note?: string;
  keys?: string[];
  act: () => void;
};

const offers: { current: Command[] }[] = [];

/** Register the open page's commands. Commands that change something open their confirmation dialog. */
export function useCommands(commands: Command[]): void {
  const current = useRef(commands);
  current.current = commands;
  useEffect(() => {
    offers.push(current);
    return () => void offers.splice(offers.indexOf(current), 1);
  }, []);
}

/** The open page's commands, innermost component first. */
export function offered(): Command[] {
  return offers.toReversed().flatMap(({ current }) => current);
}

const KEY = "rolldeck-recent-runs";
const MOST = 6;

/** Their names, the newest first. */
export function recentRuns(): string[] {
  const kept: unknown = readLocalStorageValue({ key: KEY, defaultValue: [] });
  return Array.isArray(kept) ? kept.filter((name) => typeof name === "string").slice(0, MOST) : [];
}

/** Put a run first. */
export function remember(run: string): void {
  try {
    localStorage.setItem(KEY, JSON.stringify([run, ...recentRuns().filter((known) => known !== run)]));
  } catch {
    // A browser that keeps nothing has no recent runs.
  }
}
