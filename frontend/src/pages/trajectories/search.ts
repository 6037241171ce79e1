/** URL parameters of the search for trajectories in all runs. Pure. */

export const KINDS = ["group", "episode"] as const;
export type TrajectoryKind = (typeof KINDS)[number];

export const ORDERS: [string, string][] = [
  ["newest", "Newest first"],
  ["-score", "Lowest first"],
  ["score", "Highest first"],
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
