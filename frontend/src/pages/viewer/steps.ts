/** Steps of fragments and episodes as texts. Pure. */

import type { StepWindow } from "@/api/groups";
import { number, policyStep } from "@/format";

/** The policy versions that acted: one, or the first and last. */
export function versionsText({ version_min, version_max }: { version_min: number; version_max: number }): string {
  return version_min === version_max ? policyStep(version_max) : `${policyStep(version_min)} – ${policyStep(version_max)}`;
}

/** Numbers as a vector, or a single number; `size` is the count before truncation. */
export function vectorText(numbers: number[] | undefined, size: number): string {
  if (!numbers) return "";
  if (size === 1) return number(numbers[0]);
  const more = size > numbers.length ? ` … ${number(size - numbers.length)} more` : "";
  return `${numbers.map((each) => number(each)).join(", ")}${more}`;
}

/** The size of an observation, with the range and mean of its numbers if known. */
export function rangeText(range: number[] | undefined, size: number): string {
  const values = `${number(size)} ${size === 1 ? "value" : "values"}`;
  if (!range) return values;
  const [least, mean, most] = range;
  return `${values}, ${number(least)} to ${number(most)}, mean ${number(mean)}`;
}

/** The name of a stored value of `info`, as in a fragment. */
export const infoName = (key: string): string => `info.${key}`;

/** Consecutive steps of a fragment. */
export type StepPart = { fragment: number; first: number; steps: number; number?: number };
export type StepPlace = { part: StepPart; step: number };

/** The fragment and the step in it of a step of consecutive parts; undefined after the end. */
export function placeOf(parts: StepPart[], index: number): StepPlace | undefined {
  let before = 0;
  for (const part of parts) {
    if (index < before + part.steps) return { part, step: part.first + index - before };
    before += part.steps;
  }
  return undefined;
}

/** The facts of a step in a window, each with its name; undefined outside of the window. */
export function stepOf(window: StepWindow | undefined, step: number): [name: string, text: string][] | undefined {
  const at = step - (window?.start ?? 0);
  if (!window || at < 0 || at >= window.reward.length) return undefined;
  const marks = [
    window.is_padding[at] && "padding",
    window.first[at] && "begins",
    window.terminated[at] && "terminated",
    window.truncated[at] && "truncated",
  ].filter(Boolean);
  return [
    ["Action", vectorText(window.action[at], window.action_size)],
    ["Reward", number(window.reward[at])],
    ...window.info.map(({ key, values }): [string, string] => [infoName(key), number(values[at])]),
    ["Value", number(window.value[at])],
    ["Logprob", number(window.logprob[at])],
    ["Policy", policyStep(window.policy_step[at])],
    ...(marks.length > 0 ? [["Episode", marks.join(", ")] as [string, string]] : []),
    ["Observation", window.obs.length > 0 ? vectorText(window.obs[at], window.obs_size) : rangeText(window.obs_range[at], window.obs_size)],
  ];
}
