/** Commands of the palette: pages, runs, tabs, and actions of the open page. */

import { useEffect, useRef } from "react";

export type Command = {
  /** Stable id for the list of recent commands. */
  id: string;
  group: "This page" | "Tabs" | "Go to" | "Projects" | "Runs" | "General";
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
