/** Links that open the same view elsewhere. Pure. */

import { lookOf, lookText } from "@/charts/look";

type Search = Record<string, unknown>;

/** The part of a link that leads to one chart: its place on the page and its own state. */
export type ShareSearch = {
  /** The element that is scrolled to and highlighted: `chart:loss`. */
  focus?: string;
  /** Labels of the lines that are hidden in the focused chart. */
  hide?: string[];
  /** The look of the focused chart that is no part of the page's state: `log,from:0`. */
  scale?: string;
};

const LETTERS_AT_MOST = 200;
const HIDDEN_AT_MOST = 50;

const isText = (value: unknown): value is string => typeof value === "string" && value !== "" && value.length <= LETTERS_AT_MOST;

/** Parse search parameters; invalid values are dropped. */
export function shareSearch(search: Search): ShareSearch {
  const focus = isText(search.focus) ? search.focus : undefined;
  const hide = Array.isArray(search.hide) ? [...new Set(search.hide.filter(isText))].slice(0, HIDDEN_AT_MOST) : [];
  return {
    focus,
    hide: focus !== undefined && hide.length > 0 ? hide : undefined,
    scale: focus === undefined ? undefined : lookText(lookOf(search.scale)),
  };
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
