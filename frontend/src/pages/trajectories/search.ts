/** URL parameters of the search for trajectories in all runs. Pure. */

export const KINDS = ["group", "episode"] as const;
export type TrajectoryKind = (typeof KINDS)[number];

export const ORDERS: [string, string][] = [
  ["newest", "Newest first"],
  ["score", "Lowest first"],
  ["-score", "Highest first"],
];

export type TrajectorySearch = {
  /** Defaults to groups. */
  kind?: "episode";
  /** Words in the messages of groups. */
  q?: string;
  /** Filter of the list of runs. */
  runs?: string;
  environment?: string;
  score_min?: number;
  score_max?: number;
  /** First and last day, UTC. */
  from?: string;
  to?: string;
  /** Defaults to newest first. */
  sort?: "score" | "-score";
};

const text = (value: unknown, most: number): string | undefined =>
  typeof value === "string" || typeof value === "number" ? String(value).slice(0, most) || undefined : undefined;

const finite = (value: unknown): number | undefined => {
  const found = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  return typeof found === "number" && Number.isFinite(found) ? found : undefined;
};

function day(value: unknown): string | undefined {
  return typeof value === "string" && /^\d{4}-\d\d-\d\d$/.test(value) && !Number.isNaN(Date.parse(value)) ? value : undefined;
}

/** The problem of a typed bound of the score, with the other bound; undefined if it is valid. */
export function boundProblem(typed: string, end: "least" | "greatest", other: number | undefined): string | undefined {
  if (typed.trim() === "") return undefined;
  const bound = finite(typed);
  if (bound === undefined) return "must be a number";
  if (other === undefined || (end === "least" ? bound <= other : bound >= other)) return undefined;
  return end === "least" ? `is above the greatest, ${other}` : `is below the least, ${other}`;
}

/** The problem of a typed day, with the other end of the period; undefined if it is valid. */
export function dayProblem(typed: string, end: "from" | "to", other: string | undefined): string | undefined {
  if (typed === "") return undefined;
  if (day(typed) === undefined) return "must be a day, such as 2026-01-31";
  if (other === undefined || (end === "from" ? typed <= other : typed >= other)) return undefined;
  return end === "from" ? `is after the last day, ${other}` : `is before the first day, ${other}`;
}

/** The parameters of the URL without invalid values and defaults. */
export function trajectorySearch(search: Record<string, unknown>): TrajectorySearch {
  const isOfEpisodes = search.kind === "episode";
  const [least, most] = [finite(search.score_min), finite(search.score_max)];
  const [from, to] = [day(search.from), day(search.to)];
  const found: TrajectorySearch = {
    kind: isOfEpisodes ? "episode" : undefined,
    // Episodes have no text.
    q: isOfEpisodes ? undefined : text(search.q, 200),
    runs: text(search.runs, 1000),
    environment: text(search.environment, 200),
    ...(least !== undefined && most !== undefined && least > most ? {} : { score_min: least, score_max: most }),
    ...(from && to && from > to ? {} : { from, to }),
    sort: search.sort === "score" || search.sort === "-score" ? search.sort : undefined,
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}

export type TrajectoryQuery = Omit<TrajectorySearch, "kind" | "from" | "to"> & {
  kind?: TrajectoryKind;
  run?: string;
  since?: string;
  until?: string;
};

/** The API parameters of a search; the last day is included. */
export function queryOf({ from, to, ...search }: TrajectorySearch): TrajectoryQuery {
  return {
    ...search,
    ...(from ? { since: `${from}T00:00:00Z` } : {}),
    ...(to ? { until: `${to}T23:59:59.999999Z` } : {}),
  };
}
