/** Texts and bars of the data flow. Pure. */

import type { Pipeline, PipelineStage, StageName } from "@/api/pipeline";
import type { RunDetail, WorkerRow } from "@/api/types";
import { striped } from "@/components/Lanes";
import { duration, number, percent, preciseDuration } from "@/format";

type Place = "/runs/$name/fleet" | "/runs/$name/queue" | "/runs/$name/trajectories" | "/runs/$name/weights";
export type Look = { title: string; does: string; to: Place };

const LOOKS: Record<StageName, Look> = {
  step: { title: "Environments", does: "apply actions and return observations", to: "/runs/$name/fleet" },
  exchange: { title: "Observations and actions", does: "exchanged with the env processes", to: "/runs/$name/fleet" },
  infer: { title: "Policy", does: "batched inference on observations", to: "/runs/$name/fleet" },
  push: { title: "Push", does: "cut, encode, send and store", to: "/runs/$name/trajectories" },
  queue: { title: "Queue", does: "waiting to be part of a batch", to: "/runs/$name/queue" },
  batch: { title: "Batches", does: "formed, leased and sent to a trainer", to: "/runs/$name/queue" },
  train: { title: "Trainer", does: "trains on a batch, then acknowledges it", to: "/runs/$name/weights" },
};
const GENERATING: Look = { title: "Model", does: "generates answers, which the task scores", to: "/runs/$name/fleet" };

export function lookOf(stage: StageName, kind: RunDetail["kind"]): Look {
  return stage === "infer" && kind === "language" ? GENERATING : LOOKS[stage];
}

/** Format a rate per second, or per minute if small. */
export function rateText(rate: number | null, unit: string): { amount: string; unit: string } {
  if (rate === null) return { amount: "–", unit };
  return rate > 0 && rate < 0.1
    ? { amount: number(60 * rate), unit: `${unit} per minute` }
    : { amount: number(rate), unit: `${unit} per second` };
}

/** The limit on how far workers may run ahead of the trainer. */
export function limitText({ max_staleness }: Pick<RunDetail, "max_staleness">): string {
  return max_staleness === null ? "the off-policy tolerance" : `the staleness limit (${number(max_staleness)})`;
}

/** How much a stage waits, and for what. */
export function waitText({ waits, waits_for }: Pick<PipelineStage, "waits" | "waits_for">, limit: string): string {
  if (waits === null) return "";
  if (waits < 0.005) return "never waits";
  if (waits_for === "room") return `held back ${percent(waits)} of the time by ${limit}`;
  return `waits ${percent(waits)} of the time${waits_for && ` for ${waits_for}`}`;
}

/** Why a stage has no rate. */
export function stillText({ name, share }: Pick<PipelineStage, "name" | "share">, workers: number): string {
  if (name === "step" || name === "exchange" || name === "infer") {
    // Forward passes are not counted: they belong to the env steps of the previous stage.
    return share === null ? (workers > 0 ? "not measured yet" : "no running workers") : "every step";
  }
  return name === "train" ? "no batch in the last minute" : "none in the last minute";
}

/** The meaning of a stage's bar. */
export function shareText(
  { name, share }: Pick<PipelineStage, "name" | "share">,
  { queued, pause_above }: Pick<Pipeline, "queued" | "pause_above">,
): string {
  if (name === "queue") return `${percent(pause_above ? queued / pause_above : share)} of its tolerance`;
  return `${name === "batch" ? "in delivery" : "busy"} ${percent(share)} of the time`;
}

/** The contents of a stage, and the time items spend in it. */
export function heldText({ name, held, seconds }: Pick<PipelineStage, "name" | "held" | "seconds">, unit: string): string {
  const parts: string[] = [];
  if (name === "push" && held !== null) parts.push(`${number(held)} waiting to be sent`);
  if (name === "queue") parts.push(`${number(held ?? 0)} ${unit} queued`);
  if (name === "queue" && seconds !== null) parts.push(`${duration(seconds)} each`);
  if (name === "batch" && held !== null) parts.push(`${number(held)} complete batches available`);
  if (name === "batch" && seconds !== null) parts.push(`${preciseDuration(seconds)} delivery time`);
  if (name === "train" && seconds !== null) parts.push(`${preciseDuration(seconds)} per batch`);
  return parts.join(" · ");
}

/** The trend of the queue, and the time until it is empty or full. */
export function trendText({
  arriving,
  handed_out,
  queued,
  pause_above,
  unit,
}: Pick<Pipeline, "arriving" | "handed_out" | "queued" | "pause_above" | "unit">): string {
  const more = (arriving ?? 0) - (handed_out ?? 0);
  const most = Math.max(arriving ?? 0, handed_out ?? 0);
  if (most === 0) return "Nothing was received or leased in the last minute.";
  if (Math.abs(more) < 0.05 * most) return "Arrivals and departures are balanced.";
  const speed = rateText(Math.abs(more), unit);
  const words = `${speed.amount} ${speed.unit}`;
  if (more < 0)
    return queued > 0
      ? `The queue shrinks by ${words}; empty in about ${duration(queued / -more)} at this rate.`
      : `The queue shrinks by ${words}.`;
  const room = pause_above === null ? null : pause_above - queued;
  if (room === null) return `The queue grows by ${words}.`;
  return room <= 0
    ? `The queue grows by ${words} and exceeds the tolerance.`
    : `The queue grows by ${words}; it reaches the tolerance in about ${duration(room / more)}.`;
}

/** The spans of worker time, in the order of an env step. */
export const PARTS = {
  recv: "reading observations",
  infer: "inference",
  act: "sending actions",
  env_step: "environment step",
  cut: "cutting",
  enqueue: "encoding",
  send: "sending",
  waiting_room: "held back by a limit",
  waiting_weights: "waiting for weights",
} as const;
export type Part = keyof typeof PARTS;
const NAMES = Object.keys(PARTS) as Part[];

/** The fill of each span. */
export const FILLS: Record<Part, string> = {
  recv: "var(--chart-5)",
  infer: "var(--chart-2)",
  act: "var(--chart-3)",
  env_step: "var(--chart-1)",
  cut: "var(--chart-4)",
  enqueue: "var(--chart-6)",
  send: "var(--chart-7)",
  waiting_room: striped("var(--held)"),
  waiting_weights: striped("var(--busy)"),
};

export type Bar = { part: Part; share: number; width: number };

/** One worker's time as segments of a bar; concurrent spans can exceed the whole. */
export function barsOf(shares: Record<string, number>): Bar[] {
  const total = Math.max(
    1,
    NAMES.reduce((sum, part) => sum + (shares[part] ?? 0), 0),
  );
  return NAMES.filter((part) => (shares[part] ?? 0) > 0).map((part) => ({
    part,
    share: shares[part] ?? 0,
    width: (shares[part] ?? 0) / total,
  }));
}

/** The spans that occur in any worker, for the legend. */
export function partsOf(workers: Pick<WorkerRow, "shares">[]): Part[] {
  return NAMES.filter((part) => workers.some(({ shares }) => (shares[part] ?? 0) > 0));
}

const OF_A_STEP: Part[] = ["recv", "infer", "act", "env_step"];
type Segment = { part: Part; from: number; width: number; mean: number; p95: number };

/** One env step of the fleet as a waterfall: means over workers in ms, and shares of the total. */
export function waterfallOf(workers: Pick<WorkerRow, "stages">[]): { total: number; segments: Segment[] } {
  const means = OF_A_STEP.map((part) => {
    const timings = workers.flatMap(({ stages }) => stages[part] ?? []);
    const passages = timings.reduce((sum, timing) => sum + timing.count, 0);
    const of = (field: "mean_ms" | "p95_ms") =>
      passages ? timings.reduce((sum, timing) => sum + timing[field] * timing.count, 0) / passages : 0;
    return { part, mean: of("mean_ms"), p95: of("p95_ms") };
  }).filter(({ mean }) => mean > 0);
  const total = means.reduce((sum, { mean }) => sum + mean, 0);
  let from = 0;
  const segments = means.map(({ part, mean, p95 }) => {
    const segment = { part, from: from / total, width: mean / total, mean, p95 };
    from += mean;
    return segment;
  });
  return { total, segments };
}

export const WORKERS_SHOWN = 48;

/** The shown workers: those with the lowest throughput. */
export function slowestFirst<W extends Pick<WorkerRow, "env_steps_per_second" | "index" | "shares">>(workers: W[]): W[] {
  const measured = workers.filter(({ shares }) => Object.keys(shares).length > 0);
  if (measured.length <= WORKERS_SHOWN) return measured;
  return [...measured].sort((a, b) => a.env_steps_per_second - b.env_steps_per_second).slice(0, WORKERS_SHOWN);
}

/** Diagnoses of the pace: every part works, and the stage is the slowest. */
const PACE: ReadonlySet<string> = new Set(["delivery_slow", "producers_slow", "staleness_limit", "trainer_slow"]);

/** The mark of the stage that a diagnosis names. */
export const markOf = (kind: string): string => (PACE.has(kind) ? "bottleneck" : "blocked here");
