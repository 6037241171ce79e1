/** Parse and validate the list's URL parameters, which may hold any text. */

import type { GroupQuery } from "@/api/groups";
import { trajectorySearch } from "@/pages/trajectories/search";

const CHOICES = ["label", "mark", "state", "reason", "flag", "env", "lesson", "worker"] as const;
export type Choice = (typeof CHOICES)[number];
const RANGES = ["score", "length", "version", "step"] as const;
export type Range = (typeof RANGES)[number];

export const SORTS: [string, string][] = [
  ["newest", "Newest first"],
  ["-score", "Highest score first"],
  ["score", "Lowest score first"],
  ["-length", "Longest first"],
  ["length", "Shortest first"],
];

function words(value: unknown): string[] | undefined {
  const values = Array.isArray(value) ? value : value === undefined || value === null ? [] : [value];
  const found = values.filter((each) => typeof each === "string" || typeof each === "number").map(String);
  return found.length > 0 ? [...new Set(found)].slice(0, 64) : undefined;
}

/** Other values match nothing and would be rejected. */
const KNOWN: Partial<Record<Choice, RegExp>> = { label: /^[1-9]$/, mark: /^noted$/ };

function choices(name: Choice, value: unknown): string[] | undefined {
  const found = words(value)?.filter((each) => KNOWN[name]?.test(each) ?? true) ?? [];
  return found.length > 0 ? found : undefined;
}

function finite(value: unknown): number | undefined {
  const found = typeof value === "string" && value !== "" ? Number(value) : value;
  return typeof found === "number" && Number.isFinite(found) ? found : undefined;
}

/** The filter parameters of the URL without invalid values. */
export function listSearch(search: Record<string, unknown>): GroupQuery {
  const found: Record<string, unknown> = {};
  for (const name of CHOICES) found[name] = choices(name, search[name]);
  for (const name of RANGES) {
    const least = finite(search[`${name}_min`]);
    const most = finite(search[`${name}_max`]);
    const isOrdered = least === undefined || most === undefined || least <= most;
    if (isOrdered) {
      found[`${name}_min`] = least;
      found[`${name}_max`] = most;
    }
  }
  found.batch = words(search.batch)?.[0];
  const episode = words(search.episode)?.[0];
  found.episode = episode && /^.+\/[0-9]{1,18}$/.test(episode) ? episode : undefined;
  const prompt = words(search.prompt)?.[0];
  found.prompt = prompt && /^[0-9a-f]{32}$/.test(prompt) ? prompt : undefined;
  found.q = words(search.q)?.[0]?.slice(0, 200);
  const sort = words(search.sort)?.[0];
  found.sort = SORTS.some(([name]) => name === sort) && sort !== "newest" ? sort : undefined;
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}

/** Filters of the episodes of a fleet, a view of the same tab. */
export type TabSearch = GroupQuery & { show?: "episodes"; environment?: string };

/** The parameters of the tab without invalid values. */
export function tabSearch(search: Record<string, unknown>): TabSearch {
  if (search.show !== "episodes") return listSearch(search);
  const { environment, score_min, score_max, sort } = trajectorySearch({ ...search, kind: "episode" });
  const found = { show: "episodes" as const, environment, score_min, score_max, sort };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}

/** The query with a facet value toggled. */
export function toggled(query: GroupQuery, name: Choice, value: string): GroupQuery {
  const before = query[name] ?? [];
  const after = before.includes(value) ? before.filter((each) => each !== value) : [...before, value];
  return listSearch({ ...query, [name]: after.length > 0 ? after : undefined });
}

export type Chip = { key: string; label: string; without: GroupQuery };

/** All active filters, each with the query that removes it. */
export function chips(query: GroupQuery, labelOf: (name: Choice, value: string) => string): Chip[] {
  const found: Chip[] = [];
  for (const name of CHOICES) {
    for (const value of query[name] ?? []) {
      found.push({ key: `${name} ${value}`, label: `${name}: ${labelOf(name, value)}`, without: toggled(query, name, value) });
    }
  }
  for (const name of RANGES) {
    const least = query[`${name}_min`];
    const most = query[`${name}_max`];
    if (least === undefined && most === undefined) continue;
    const span = least === most ? `${least}` : `${least ?? "…"} to ${most ?? "…"}`;
    const without = listSearch({ ...query, [`${name}_min`]: undefined, [`${name}_max`]: undefined });
    found.push({ key: name, label: `${name}: ${span}`, without });
  }
  if (query.batch) {
    found.push({ key: "batch", label: `batch: ${query.batch.slice(0, 8)}`, without: listSearch({ ...query, batch: undefined }) });
  }
  if (query.episode) {
    found.push({ key: "episode", label: `episode: ${query.episode}`, without: listSearch({ ...query, episode: undefined }) });
  }
  if (query.prompt) {
    found.push({ key: "prompt", label: `prompt: ${query.prompt.slice(0, 8)}`, without: listSearch({ ...query, prompt: undefined }) });
  }
  return found;
}
