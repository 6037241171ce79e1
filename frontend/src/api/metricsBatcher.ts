/** Batch the metric requests of charts that render at the same time. */

import DataLoader from "dataloader";
import { api, body } from "@/api/client";
import type { MetricAxis, MetricLine } from "@/api/types";

export type LinesRequest = {
  /** Comma-separated, as in the URL. */
  runs: string;
  names: readonly string[];
  x: MetricAxis;
  points: number;
  from?: number;
  to?: number;
};

/** Above this number of lines the server reads coarser blocks. */
const MAX_LINES = 30;
/** Bounds the latency of one request; a screen shows fewer charts. */
const MAX_NAMES = 12;

const viewKey = ({ names: _, ...view }: LinesRequest): string => JSON.stringify(view);

/** The fewest requests that cover all given requests, in their order. Pure. */
export function batchRequests(requested: readonly LinesRequest[]): LinesRequest[] {
  const requests: LinesRequest[] = [];
  const open = new Map<string, LinesRequest>();
  for (const one of requested) {
    const key = viewKey(one);
    const limit = Math.min(MAX_NAMES, Math.floor(MAX_LINES / one.runs.split(",").length));
    const before = open.get(key);
    const names = [...new Set([...(before?.names ?? []), ...one.names])];
    if (before && names.length <= limit) {
      before.names = names;
    } else {
      const request = { ...one };
      open.set(key, request);
      requests.push(request);
    }
  }
  return requests;
}

async function fetchLines({ names, ...view }: LinesRequest): Promise<MetricLine[]> {
  return (await body(api.GET("/api/v1/metrics/lines", { params: { query: { ...view, names: names.join(",") } } }))).lines;
}

const holds = (request: LinesRequest, one: LinesRequest): boolean =>
  viewKey(request) === viewKey(one) && one.names.every((name) => request.names.includes(name));

async function loadAll(requested: readonly LinesRequest[]): Promise<(MetricLine[] | Error)[]> {
  const requests = batchRequests(requested);
  const results = await Promise.allSettled(requests.map(fetchLines));
  return requested.map((one) => {
    const result = results[requests.findIndex((request) => holds(request, one))];
    if (result?.status !== "fulfilled") return result?.reason as Error;
    return result.value.filter(({ name }) => one.names.includes(name));
  });
}

const loader = new DataLoader(loadAll, { cache: false });

/** One line for each run and name; requests of the same tick share an API call. */
export const loadLines = (requested: LinesRequest): Promise<MetricLine[]> => loader.load(requested);
