/**
 * Export a run's timing as a trace for Perfetto and chrome://tracing. Pure.
 *
 * Batches, weight deliveries and events appear at their actual times, in microseconds since 1970. The spans of an env step
 * are known only as means of each worker's last report, and appear at the time of the export.
 */

import type { BatchRow, PolicyVersionRow, RunDetail, RunEvent, WeightSyncRow, WorkerRow } from "@/api/types";
import { PARTS, waterfallOf } from "@/pages/run/pipeline/stages";

type TraceEvent = {
  name: string;
  /** X: a span with a duration; i: an instant; M: the name of a track. */
  ph: "X" | "i" | "M";
  pid: number;
  tid: number;
  /** Microseconds. */
  ts?: number;
  dur?: number;
  s?: "p";
  args?: Record<string, unknown>;
};

export type Sources = {
  run: Pick<RunDetail, "name">;
  batches: BatchRow[];
  versions: PolicyVersionRow[];
  deliveries: WeightSyncRow[];
  events: RunEvent[];
  workers: WorkerRow[];
  /** Milliseconds since 1970. */
  now: number;
};

const TRACKS = { trainers: 1, weights: 2, events: 3, steps: 4 } as const;
const micros = (iso: string) => Date.parse(iso) * 1000;

function named(pid: number, name: string): TraceEvent {
  return { name: "process_name", ph: "M", pid, tid: 0, args: { name } };
}

function threadNamed(pid: number, tid: number, name: string): TraceEvent {
  return { name: "thread_name", ph: "M", pid, tid, args: { name } };
}

/** Each batch for the duration of its lease, one track per trainer. */
function ofBatches(batches: BatchRow[], now: number): TraceEvent[] {
  const trainers = [...new Set(batches.map(({ trainer }) => trainer ?? "no trainer"))].sort();
  const segments = batches.map((batch): TraceEvent => {
    const begins = micros(batch.leased_at);
    const ends = batch.settled_at ? micros(batch.settled_at) : now * 1000;
    const { state, ordinal, epoch, policy_step, sequences, tokens, staleness } = batch;
    return {
      ...{ name: `batch ${ordinal}`, ph: "X", pid: TRACKS.trainers, tid: 1 + trainers.indexOf(batch.trainer ?? "no trainer") },
      ...{ ts: begins, dur: Math.max(0, ends - begins) },
      args: { state, weights: `${epoch}.${policy_step}`, sequences, tokens, staleness },
    };
  });
  return [...trainers.map((trainer, i) => threadNamed(TRACKS.trainers, i + 1, trainer)), ...segments];
}

/** Each version per worker, one track each: announced, staged, active. */
function ofWeights(versions: PolicyVersionRow[], deliveries: WeightSyncRow[]): TraceEvent[] {
  const published = new Map(versions.map(({ epoch, step, published_at }) => [`${epoch}.${step}`, published_at]));
  const workers = [...new Set(deliveries.map(({ worker }) => worker))].sort((a, b) => a - b);
  const segments = deliveries.flatMap(({ epoch, step, worker, announced_at, staged_at, active_at }): TraceEvent[] => {
    const version = `${epoch}.${step}`;
    const marks = [
      ["announced", published.get(version), announced_at],
      ["received", announced_at, staged_at],
      ["activated", staged_at, active_at],
    ] as const;
    return marks.flatMap(([what, from, to]) =>
      from && to
        ? [
            {
              name: `${what} ${version}`,
              ph: "X" as const,
              pid: TRACKS.weights,
              tid: 1 + worker,
              ts: micros(from),
              dur: Math.max(0, micros(to) - micros(from)),
            },
          ]
        : [],
    );
  });
  return [...workers.map((worker) => threadNamed(TRACKS.weights, 1 + worker, `worker ${worker}`)), ...segments];
}

function ofEvents(events: RunEvent[]): TraceEvent[] {
  return events.map(({ message, at, actor, reason, level, kind }) => ({
    ...{ name: message, ph: "i", pid: TRACKS.events, tid: 1, ts: micros(at), s: "p" },
    args: { actor, reason, level, kind },
  }));
}

/** One mean env step per worker, its spans in sequence. */
function ofSteps(workers: WorkerRow[], now: number): TraceEvent[] {
  return workers.flatMap((worker) => {
    const { total, segments } = waterfallOf([worker]);
    if (segments.length === 0) return [];
    const parts = segments.map(
      ({ part, from, mean, p95 }): TraceEvent => ({
        ...{ name: PARTS[part], ph: "X", pid: TRACKS.steps, tid: 1 + worker.index },
        ...{ ts: 1000 * (now + from * total), dur: 1000 * mean },
        args: { mean_ms: mean, p95_ms: p95 },
      }),
    );
    return [threadNamed(TRACKS.steps, 1 + worker.index, `worker ${worker.index}`), ...parts];
  });
}

/** The complete trace, as a JSON-serializable value. */
export function traceOf({ run, batches, versions, deliveries, events, workers, now }: Sources): {
  traceEvents: TraceEvent[];
  displayTimeUnit: "ms";
} {
  const tracks = [
    named(TRACKS.trainers, `${run.name}: batches at trainers`),
    named(TRACKS.weights, `${run.name}: weight deliveries`),
    named(TRACKS.events, `${run.name}: events`),
    named(TRACKS.steps, `${run.name}: one env step, mean of the last report`),
  ];
  const found = [...ofBatches(batches, now), ...ofWeights(versions, deliveries), ...ofEvents(events), ...ofSteps(workers, now)];
  return { traceEvents: [...tracks, ...found], displayTimeUnit: "ms" };
}
