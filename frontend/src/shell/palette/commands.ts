/** Commands of the palette: actions and tabs of the open page, pages, projects and runs. */

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
