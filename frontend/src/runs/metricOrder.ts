/** The order of metrics by kind of run: the return first, then evaluations. Pure. */

import { BUILTIN_RETURN } from "@/api/metrics";
import type { RunDetail } from "@/api/types";

export type RunKind = RunDetail["kind"];

const EVALUATION_RETURN = "eval/episode_return";

const LOGGED_RETURN = /^(?!eval\/)(.+\/)?episode_return$/;
const LOGGED_REWARD = /^(train\/)?(reward|score)([_/]mean)?$/;
const EVALUATION_SUCCESS = /^eval\/[^/]+\/success$/;
const MICRO_EVALUATION_SUCCESS = /^micro_eval\/[^/]+\/success$/;
const exactly = (name: string): RegExp => new RegExp(`^${name}$`);

const OF_GROUPS = [exactly(BUILTIN_RETURN), LOGGED_REWARD, EVALUATION_SUCCESS, MICRO_EVALUATION_SUCCESS];
const FIRST: Record<RunKind, readonly RegExp[]> = {
  fleet: [LOGGED_RETURN, exactly(BUILTIN_RETURN), exactly(EVALUATION_RETURN)],
  language: OF_GROUPS,
  outside: OF_GROUPS,
};

/** The place of a metric in the order, from 0; Infinity for metrics other than returns and evaluations. */
function rankOf(kinds: Iterable<RunKind>, name: string): number {
  let rank = Infinity;
  for (const kind of kinds) {
    const found = FIRST[kind].findIndex((pattern) => pattern.test(name));
    if (found >= 0) rank = Math.min(rank, found);
  }
  return rank;
}

/** Items in order: returns, then evaluations, then the rest in the given order. */
export function returnsFirst<T>(kinds: Iterable<RunKind>, items: readonly T[], nameOf: (item: T) => string): T[] {
  const all = [...new Set(kinds)];
  const ranked = items.map((item) => ({ item, rank: rankOf(all, nameOf(item)) }));
  return ranked.sort((a, b) => (a.rank === b.rank ? 0 : a.rank - b.rank)).map(({ item }) => item);
}

const LEADS_AT_MOST = 4;

/** The names of returns and evaluations, in order, at most four. */
export function leadsOf(kinds: Iterable<RunKind>, names: readonly string[]): string[] {
  const all = [...new Set(kinds)];
  const leads = names.filter((name) => rankOf(all, name) < Infinity);
  return returnsFirst(all, leads, (name) => name).slice(0, LEADS_AT_MOST);
}

/** A title for built-in returns, whose names do not contain the word; undefined for other metrics. */
export function titleOf(kinds: Iterable<RunKind>, name: string): string | undefined {
  if (name === EVALUATION_RETURN) return "Evaluation return";
  if (name !== BUILTIN_RETURN) return undefined;
  const areFleets = new Set([...kinds].map((kind) => kind === "fleet"));
  if (areFleets.size > 1) return "Return or reward";
  return areFleets.has(true) ? "Return" : "Reward";
}
