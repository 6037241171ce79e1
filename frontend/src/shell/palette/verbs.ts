/** Verbs of runs other than the open one: they open the run with the verb's confirmation. */

import type { ListedRun } from "@/api/runLists";
import { VERBS, type Verb } from "@/pages/run/verbs";
import type { Command } from "@/shell/palette/commands";

/** The verbs of the open run come first. */
const COST = 2;
const LEAST_LETTERS = 3;

/** The verb that a text begins with, and the rest of the text, by which runs are searched. Pure. */
export function splitVerb(typed: string): { verb: Verb | undefined; rest: string } {
  const [first = "", ...others] = typed.trim().split(/\s+/);
  const begun = first.toLowerCase();
  const verb = (Object.keys(VERBS) as Verb[]).find((one) => begun.length >= LEAST_LETTERS && one.startsWith(begun));
  return verb ? { verb, rest: others.join(" ") } : { verb: undefined, rest: typed };
}

let pending: { run: string; verb: Verb } | null = null;

/** The verb with which the palette opened a run's page, once. */
export function takeVerb(run: string): Verb | null {
  const verb = pending?.run === run ? pending.verb : null;
  pending = null;
  return verb;
}

type Run = Pick<ListedRun, "name" | "allowed_verbs">;

/** The typed verb for each run that allows it, except for the open one, whose page has its own commands. */
export function verbCommands(typed: string, runs: Run[], openRun: string | undefined, open: (run: string) => void): Command[] {
  const { verb } = splitVerb(typed);
  if (!verb || verb === "reset") return [];
  return runs
    .filter(({ name, allowed_verbs }) => name !== openRun && allowed_verbs.includes(verb))
    .map(({ name }) => ({
      id: `verb:${verb}:${name}`,
      group: "Verbs",
      title: `${VERBS[verb].label} ${name}…`,
      note: VERBS[verb].does,
      cost: COST,
      act: () => {
        pending = { run: name, verb };
        open(name);
      },
    }));
}
