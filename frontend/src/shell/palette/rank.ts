/** Rank commands by the typed text. Pure. */

import type { Command } from "@/shell/palette/commands";
import { fitOf } from "@/shell/palette/fuzzy";

export type Shown = {
  command: Command;
  /** Indices of title letters to highlight. */
  at: number[];
  /** Section heading, while nothing is typed. */
  heading: string;
};

/** The order of the groups while nothing is typed. */
const GROUPS: Command["group"][] = ["This page", "Tabs", "Go to", "Projects", "Runs", "General"];
/** Matches in additional terms rank below matches in titles. */
const WORDS_WEIGHT = 0.5;
const RECENT_BONUS = 5;

function bonus(id: string, recent: string[]): number {
  const place = recent.indexOf(id);
  return place < 0 ? 0 : RECENT_BONUS * (1 - place / recent.length);
}

function scored(command: Command, typed: string, recent: string[]): { shown: Shown; score: number } | null {
  const byTitle = fitOf(typed, command.title);
  const byText = command.words ? fitOf(typed, command.words) : null;
  if (!byTitle && !byText) return null;
  const score = Math.max(byTitle?.score ?? -Infinity, WORDS_WEIGHT * (byText?.score ?? -Infinity));
  return {
    shown: { command, at: byTitle?.at ?? [], heading: "" },
    score: score + bonus(command.id, recent),
  };
}

/** Without text: recent commands first, then the groups in order. With text: best match first. */
export function ranked(commands: Command[], typed: string, recent: string[]): Shown[] {
  if (typed.trim() === "") {
    const again = recent.flatMap((id) => commands.find((command) => command.id === id) ?? []);
    const rest = GROUPS.flatMap((group) => commands.filter((command) => command.group === group && !recent.includes(command.id)));
    return [
      ...again.map((command) => ({ command, at: [], heading: "Recent" })),
      ...rest.map((command) => ({ command, at: [], heading: command.group })),
    ];
  }
  return commands
    .flatMap((command) => scored(command, typed, recent) ?? [])
    .sort((a, b) => b.score - a.score)
    .map(({ shown }) => shown);
}

export type Section = { heading: string; rows: { one: Shown; place: number }[] };

/** Ranked commands in sections by heading; `place` counts across sections. */
export function sections(shown: Shown[]): Section[] {
  const found: Section[] = [];
  shown.forEach((one, place) => {
    const last = found.at(-1);
    if (last?.heading === one.heading) last.rows.push({ one, place });
    else found.push({ heading: one.heading, rows: [{ one, place }] });
  });
  return found;
}

type Piece = { text: string; isMarked: boolean };

/** A title split into pieces, to highlight matched letters. */
export function pieces(title: string, at: number[]): Piece[] {
  const marked = new Set(at);
  const found: Piece[] = [];
  [...title].forEach((letter, place) => {
    const last = found.at(-1);
    const isMarked = marked.has(place);
    if (last && last.isMarked === isMarked) last.text += letter;
    else found.push({ text: letter, isMarked });
  });
  return found;
}
