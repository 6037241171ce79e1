/** Links that open the same view elsewhere. Pure. */

import { lookOf, lookText } from "@/charts/look";

type Search = Record<string, unknown>;

/** The part of a link that every page has: a place, and how its charts look. */
export type ShareSearch = {
  /** The element that is scrolled to and highlighted: `chart:loss`. */
  focus?: string;
  /** The look of each changed chart, by its place: `{"loss": "log,from:0"}`. */
  looks?: Record<string, string>;
};

const LETTERS_AT_MOST = 200;
const LOOKS_AT_MOST = 50;

const isText = (value: unknown): value is string => typeof value === "string" && value !== "" && value.length <= LETTERS_AT_MOST;

/** Parse search parameters; invalid values are dropped. */
export function shareSearch(search: Search): ShareSearch {
  const focus = isText(search.focus) ? search.focus : undefined;
  const given = search.looks && typeof search.looks === "object" && !Array.isArray(search.looks) ? Object.entries(search.looks) : [];
  const looks = given.flatMap(([name, look]): [string, string][] => {
    const text = isText(name) ? lookText(lookOf(look)) : undefined;
    return text ? [[name, text]] : [];
  });
  return { focus, looks: looks.length > 0 ? Object.fromEntries(looks.slice(0, LOOKS_AT_MOST)) : undefined };
}

/** The looks with that of one chart; undefined if all have the default look. */
export function withLook(looks: ShareSearch["looks"], name: string, look: string | undefined): ShareSearch["looks"] {
  const { [name]: _, ...others } = looks ?? {};
  const found = look === undefined ? others : { ...others, [name]: look };
  return Object.keys(found).length > 0 ? found : undefined;
}

/** The place of a chart on its page. */
export const chartTarget = (name: string): string => `chart:${name}`;

/** The chart of a place; null for other places. */
export function chartOf(focus: string | undefined): string | null {
  return focus?.startsWith("chart:") ? focus.slice("chart:".length) : null;
}

/** Search parameters without a range that moves with time: the last minutes become a fixed range. */
export function fixed(search: Search, nowSeconds: number): Search {
  const { last, ...rest } = search;
  if (typeof last !== "number" || last <= 0 || rest.from !== undefined) return search;
  const to = Math.ceil(nowSeconds);
  return { ...rest, from: to - last, to };
}

type Validate = (search: Search) => object;

/** The parameters that the routes of the page know; others, which may hold anything, are dropped. */
export function known(search: Search, validators: readonly Validate[]): Search {
  const found: Search = Object.assign({}, ...validators.map((validate) => validate(search)));
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}
