/** URL parameters of lists of samples. Pure. */

export const KINDS = ["group", "episode", "fragment"] as const;
export type SampleKind = (typeof KINDS)[number];

/** Sort keys; a minus begins with the greatest value. Newest first without one. */
const SORTS = ["arrived", "score", "solved", "length", "version", "step", "env", "state", "run"] as const;
/** Metadata or an override of groups. */
export type Fact = `${"meta" | "override"}.${string}`;
export const isFact = (name: string): name is Fact => /^(meta|override)\.[^\s",:=~<>]{1,90}$/.test(name);
export const MOST_COLUMNS = 20;
export type SortName = (typeof SORTS)[number] | Fact;
export type Sort = SortName | `-${SortName}`;

const MEASURES = ["return", "length"] as const;
export type Measure = (typeof MEASURES)[number];

export type SampleSearch = {
  kind?: SampleKind;
  /** A filter: `env:math score:<0.2 "free text"`. */
  q?: string;
  sort?: Sort;
  /** Further columns, comma-separated: `meta.difficulty,override.level`. */
  columns?: string;
  /** The measure whose distribution is above the list; hidden without one. */
  spread?: Measure;
};

/** The further columns of a list. */
export const factsOf = ({ columns = "" }: SampleSearch): Fact[] => [...new Set(columns.split(","))].filter(isFact).slice(0, MOST_COLUMNS);

const LONGEST = 1000;

/** The parameters of the URL without invalid values and defaults. */
export function sampleSearch(search: Record<string, unknown>): SampleSearch {
  const { q } = search;
  const text = typeof q === "string" || typeof q === "number" ? String(q).slice(0, LONGEST) : "";
  const kind = KINDS.find((each) => each === search.kind);
  const key = typeof search.sort === "string" ? search.sort.replace(/^-/, "") : "";
  const sort = SORTS.some((name) => name === key) || isFact(key);
  const columns = factsOf({ columns: String(search.columns ?? "") }).join(",");
  const found: SampleSearch = {};
  if (kind) found.kind = kind;
  if (text) found.q = text;
  if (sort && search.sort !== "-arrived") found.sort = search.sort as Sort;
  if (columns) found.columns = columns;
  const spread = MEASURES.find((each) => each === search.spread);
  if (spread) found.spread = spread;
  return found;
}
