/** Batch the metric requests of charts that render at the same time. */

import DataLoader from "dataloader";
import { api, body } from "@/api/client";
import type { MetricAxis, MetricLine } from "@/api/metrics";

export type Asked = {
  /** Comma-separated, as in the URL. */
  runs: string;
  names: readonly string[];
  x: MetricAxis;
  points: number;
  from?: number;
  to?: number;
};

/** Above this number of lines the server reads coarser blocks. */
const LINES_AT_MOST = 30;
/** Bounds the latency of one request; a screen shows fewer charts. */
const NAMES_AT_MOST = 12;

const sameLook = ({ names: _, ...look }: Asked): string => JSON.stringify(look);

/** The fewest requests that cover all given requests, in their order. Pure. */
export function questionsOf(asked: readonly Asked[]): Asked[] {
  const questions: Asked[] = [];
  const open = new Map<string, Asked>();
  for (const one of asked) {
    const key = sameLook(one);
    const most = Math.min(NAMES_AT_MOST, Math.floor(LINES_AT_MOST / one.runs.split(",").length));
    const before = open.get(key);
    const names = [...new Set([...(before?.names ?? []), ...one.names])];
    if (before && names.length <= most) {
      before.names = names;
    } else {
      const question = { ...one };
      open.set(key, question);
      questions.push(question);
    }
  }
  return questions;
}

async function answered({ names, ...look }: Asked): Promise<MetricLine[]> {
  return (await body(api.GET("/api/metrics/lines", { params: { query: { ...look, names: names.join(",") } } }))).lines;
}

const holds = (question: Asked, one: Asked): boolean =>
  sameLook(question) === sameLook(one) && one.names.every((name) => question.names.includes(name));

async function answersOf(asked: readonly Asked[]): Promise<(MetricLine[] | Error)[]> {
  const questions = questionsOf(asked);
  const answers = await Promise.allSettled(questions.map(answered));
  return asked.map((one) => {
    const answer = answers[questions.findIndex((question) => holds(question, one))];
    if (answer?.status !== "fulfilled") return answer?.reason as Error;
    return answer.value.filter(({ name }) => one.names.includes(name));
  });
}

const loader = new DataLoader(answersOf, { cache: false });

/** One line for each run and name; requests of the same tick share an API call. */
export const linesOf = (asked: Asked): Promise<MetricLine[]> => loader.load(asked);
