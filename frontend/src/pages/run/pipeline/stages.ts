/** Texts and bars of the data flow. Pure. */

import type { Pipeline, PipelineStage, StageName } from "@/api/pipeline";
import type { RunDetail, WorkerRow } from "@/api/types";
import { duration, number, percent } from "@/format";

type Place = "/runs/$name/fleet" | "/runs/$name/queue" | "/runs/$name/trajectories" | "/runs/$name/weights";
export type Look = { title: string; does: string; to: Place };

const LOOKS: Record<StageName, Look> = {
  step: { title: "Environments step", does: "each answers an action with what comes of it", to: "/runs/$name/fleet" },
  exchange: { title: "Observations and actions", does: "read from the env processes and sent to them", to: "/runs/$name/fleet" },
  infer: { title: "The policy acts", does: "inference, a batch of observations at once", to: "/runs/$name/fleet" },
  push: { title: "Push", does: "cut, encoded, sent and stored", to: "/runs/$name/trajectories" },
  queue: { title: "Queue", does: "waits to become part of a batch", to: "/runs/$name/queue" },
  batch: { title: "Batches", does: "formed, leased and sent to a trainer", to: "/runs/$name/queue" },
  train: { title: "Trainer", does: "trains on a batch, then confirms it", to: "/runs/$name/weights" },
};
const GENERATING: Look = { title: "The model answers", does: "generates, and is scored by its task", to: "/runs/$name/fleet" };

export function lookOf(stage: StageName, kind: RunDetail["kind"]): Look {
  return stage === "infer" && kind === "language" ? GENERATING : LOOKS[stage];
}

/** A rate in the unit of time in which it is a number one can imagine. */
export function rateText(rate: number | null, unit: string): { amount: string; unit: string } {
  if (rate === null) return { amount: "–", unit };
  return rate > 0 && rate < 0.1
    ? { amount: number(60 * rate), unit: `${unit} a minute` }
    : { amount: number(rate), unit: `${unit} a second` };
}

/** The limit on data that workers make ahead of the trainer. */
export function limitText({ max_staleness }: Pick<RunDetail, "max_staleness">): string {
  return max_staleness === null ? "the off-policy tolerance" : `the staleness limit (${number(max_staleness)})`;
}

/** Why a stage has nothing to do, in a few words. */
export function waitText({ waits, waits_for }: Pick<PipelineStage, "waits" | "waits_for">, limit: string): string {
  if (waits === null) return "";
  if (waits < 0.005) return "never waits";
  if (waits_for === "room") return `held back ${percent(waits)} of the time by ${limit}`;
  return `waits ${percent(waits)} of the time${waits_for && ` for ${waits_for}`}`;
}

/** What stands where a rate would: why there is none. */
export function stillText({ name, share }: Pick<PipelineStage, "name" | "share">, workers: number): string {
  if (name === "step" || name === "exchange" || name === "infer") {
    // Passes are not counted: each belongs to the steps of the stage before.
    return share === null ? (workers > 0 ? "nothing measured yet" : "no worker is running") : "for every step";
  }
  return name === "train" ? "no batch in the last minute" : "nothing in the last minute";
}

/** What the bar of a stage is a part of. */
export function shareText(
  { name, share }: Pick<PipelineStage, "name" | "share">,
  { queued, pause_above }: Pick<Pipeline, "queued" | "pause_above">,
): string {
  if (name === "queue") return `${percent(pause_above ? queued / pause_above : share)} of its tolerance`;
  return `${percent(share)} of the time ${name === "batch" ? "under way" : "at work"}`;
}

/** What is in a stage, and for how long. */
export function heldText({ name, held, seconds }: Pick<PipelineStage, "name" | "held" | "seconds">, unit: string): string {
  const parts: string[] = [];
  if (name === "push" && held !== null) parts.push(`${number(held)} waiting to be sent`);
  if (name === "queue") parts.push(`${number(held ?? 0)} ${unit} wait`);
  if (name === "queue" && seconds !== null) parts.push(`${duration(seconds)} each`);
  if (name === "batch" && held !== null) parts.push(`${number(held)} whole ones wait`);
  if (name === "batch" && seconds !== null) parts.push(`${seconds < 1 ? `${number(1000 * seconds)} ms` : duration(seconds)} on their way`);
  if (name === "train" && seconds !== null) parts.push(`${seconds < 1 ? `${number(1000 * seconds)} ms` : `${number(seconds)} s`} a batch`);
  return parts.join(" · ");
}

/** Where the queue is going: filling or emptying, and when it gets there. */
export function trendText({
  arriving,
  handed_out,
  queued,
  pause_above,
  unit,
}: Pick<Pipeline, "arriving" | "handed_out" | "queued" | "pause_above" | "unit">): string {
  const more = (arriving ?? 0) - (handed_out ?? 0);
  const most = Math.max(arriving ?? 0, handed_out ?? 0);
  if (most === 0) return "Nothing came in and nothing went out in the last minute.";
  if (Math.abs(more) < 0.05 * most) return "As much comes in as goes out.";
  const speed = rateText(Math.abs(more), unit);
  const words = `${speed.amount} ${speed.unit}`;
  if (more < 0)
    return queued > 0
      ? `It empties by ${words}; nothing is left in about ${duration(queued / -more)} at this rate.`
      : `More goes out than comes in, by ${words}.`;
  const room = pause_above === null ? null : pause_above - queued;
  if (room === null) return `It fills by ${words}.`;
  return room <= 0
    ? `It fills by ${words}, and is over its tolerance.`
    : `It fills by ${words}; its tolerance is reached in about ${duration(room / more)}.`;
}

/** Everything that a worker may do with its time, in the order in which a step passes it. */
export const PARTS = {
  recv: "reading observations",
  infer: "inference",
  act: "sending actions",
  env_step: "environment step",
  cut: "cutting",
  enqueue: "encoding",
  send: "sending",
  waiting_room: "held back by a limit",
  waiting_weights: "waits for weights",
} as const;
export type Part = keyof typeof PARTS;
const NAMES = Object.keys(PARTS) as Part[];

export type Bar = { part: Part; share: number; width: number };

/** One worker's time as parts of one bar; those that go on side by side may be more than all of it. */
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

/** The parts that any of the workers has, for the legend. */
export function partsOf(workers: Pick<WorkerRow, "shares">[]): Part[] {
  return NAMES.filter((part) => workers.some(({ shares }) => (shares[part] ?? 0) > 0));
}

const OF_A_STEP: Part[] = ["recv", "infer", "act", "env_step"];
export type Stretch = { part: Part; from: number; width: number; mean: number; p95: number };

/** One env step of the fleet as a waterfall: means over workers, in ms; parts of the whole. */
export function waterfallOf(workers: Pick<WorkerRow, "stages">[]): { total: number; stretches: Stretch[] } {
  const means = OF_A_STEP.map((part) => {
    const timings = workers.flatMap(({ stages }) => stages[part] ?? []);
    const passages = timings.reduce((sum, timing) => sum + timing.count, 0);
    const of = (field: "mean_ms" | "p95_ms") =>
      passages ? timings.reduce((sum, timing) => sum + timing[field] * timing.count, 0) / passages : 0;
    return { part, mean: of("mean_ms"), p95: of("p95_ms") };
  }).filter(({ mean }) => mean > 0);
  const total = means.reduce((sum, { mean }) => sum + mean, 0);
  let from = 0;
  const stretches = means.map(({ part, mean, p95 }) => {
    const stretch = { part, from: from / total, width: mean / total, mean, p95 };
    from += mean;
    return stretch;
  });
  return { total, stretches };
}

const WAY = {
  under_way: "formed – in the trainer's hands",
  in_hand: "in the trainer's hands – confirmed",
} as const;
type WayPart = keyof typeof WAY;
type WayStretch = Omit<Stretch, "part"> & { part: WayPart; words: string; count: number };

/** A batch from its making to its confirmation: means of the last minute in ms, parts of the whole. */
export function batchWay(times: Pipeline["batches"]): { total: number; stretches: WayStretch[] } {
  const known = (Object.keys(WAY) as WayPart[]).flatMap((part) => {
    const timing = times[part];
    return timing ? [{ part, timing }] : [];
  });
  const total = known.reduce((sum, { timing }) => sum + timing.mean_ms, 0);
  let from = 0;
  const stretches = known.map(({ part, timing }) => {
    const width = total > 0 ? timing.mean_ms / total : 0;
    const stretch = { part, words: WAY[part], from, width, mean: timing.mean_ms, p95: timing.p95_ms, count: timing.count };
    from += width;
    return stretch;
  });
  return { total, stretches };
}

export const WORKERS_SHOWN = 48;

/** The workers that are shown: those that did least, for they are what one looks for. */
export function slowestFirst<W extends Pick<WorkerRow, "env_steps_per_second" | "index" | "shares">>(workers: W[]): W[] {
  const measured = workers.filter(({ shares }) => Object.keys(shares).length > 0);
  if (measured.length <= WORKERS_SHOWN) return measured;
  return [...measured].sort((a, b) => a.env_steps_per_second - b.env_steps_per_second).slice(0, WORKERS_SHOWN);
}
