/** Rank commands by the typed words. Pure. */

import type { Command } from "@/shell/palette/commands";

/** The order of the groups while nothing is typed. */
export const GROUPS: Command["group"][] = ["This page", "Tabs", "Go to", "Projects", "Runs"];

const starts = (title: string, word: string) =>
  title.startsWith(word) ? 0 : title.split(/[\s\-_./:&(]+/).some((part) => part.startsWith(word)) ? 1 : 2;

/** The commands with every typed word in title or further words; those whose title begins with the first word come first. */
export function ranked(commands: Command[], typed: string): Command[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return GROUPS.flatMap((group) => commands.filter((command) => command.group === group));
  const place = ({ title }: Command) => starts(title.toLowerCase(), words[0] ?? "");
  return commands
    .filter(({ title, words: more = "" }) => words.every((word) => `${title} ${more}`.toLowerCase().includes(word)))
    .sort((a, b) => place(a) - place(b) || a.title.length - b.title.length);
}
