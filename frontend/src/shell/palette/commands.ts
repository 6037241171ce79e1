/** What the palette offers: places, runs, tabs, and what the open page lets one do. */

import { useEffect, useRef } from "react";

export type Command = {
  /** Known again later, on this browser. */
  id: string;
  group: "This page" | "Tabs" | "Go to" | "Runs" | "Deck";
  title: string;
  /** Further words that it is found by. */
  words?: string;
  /** What stands beside it. */
  note?: string;
  keys?: string[];
  act: () => void;
};

const offers: { current: Command[] }[] = [];

/** Offer what the open page can do. What changes something opens the dialog that asks first. */
export function useCommands(commands: Command[]): void {
  const current = useRef(commands);
  current.current = commands;
  useEffect(() => {
    offers.push(current);
    return () => void offers.splice(offers.indexOf(current), 1);
  }, []);
}

/** What the open page offers now, its innermost part first. */
export function offered(): Command[] {
  return offers.toReversed().flatMap(({ current }) => current);
}
