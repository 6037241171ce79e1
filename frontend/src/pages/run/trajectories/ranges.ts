/** The range and the environment in the filter of a list. Pure. */

import { term } from "@/components/filter/suggest";

export type Range = { least: number; most: number };

/** The words of a filter; quoted spaces are part of a word. */
const wordsOf = (q: string): string[] => q.match(/(?:[^\s"]|"[^"]*"?)+/g) ?? [];

/** The range of a qualifier, if the filter has both of its ends. */
export function rangeIn(q: string, name: string): Range | undefined {
  const end = (operator: string) => wordsOf(q).flatMap((word) => new RegExp(`^${name}:?${operator}(.+)$`).exec(word)?.[1] ?? [])[0];
  const [least, most] = [Number(end(">=") ?? Number.NaN), Number(end("<=") ?? Number.NaN)];
  return Number.isFinite(least) && Number.isFinite(most) ? { least, most } : undefined;
}

/** The filter with a range in place of the comparisons of a qualifier. */
export function withRange(q: string, name: string, range: Range | undefined): string {
  const others = wordsOf(q).filter((word) => !new RegExp(`^${name}:?[<>]`).test(word));
  return [...others, ...(range ? [term(name, range.least, ":>="), term(name, range.most, ":<=")] : [])].join(" ");
}

const isTask = (word: string) => word.startsWith("env:");

/** The only environment or lesson of a filter; undefined for none and for several. */
export function taskIn(q: string): string | undefined {
  const [word, ...others] = wordsOf(q).filter(isTask);
  const value = word?.slice("env:".length);
  if (!value || others.length > 0 || (value.includes(",") && !value.startsWith('"'))) return undefined;
  return value.replaceAll('"', "");
}

/** The filter with another environment, or with none. */
export const withTask = (q: string, task: string | undefined): string =>
  [...wordsOf(q).filter((word) => !isTask(word)), ...(task ? [term("env", task)] : [])].join(" ");
