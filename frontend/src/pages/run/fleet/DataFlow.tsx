import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type Diagnosis as Named, type Pipeline, type PipelineStage, pipelineQuery, type StageName } from "@/api/queue";
import type { RunDetail } from "@/api/types";
import { type Lane, Lanes, striped } from "@/components/Lanes";
import { ErrorState, Panel, Skeletons } from "@/components/panels";
import { currentDiagnosis } from "@/diagnosis/current";
import { Diagnosis } from "@/diagnosis/Diagnosis";
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

/** Diagnoses of the pace: every part works, and the stage is the slowest. */
const PACE: ReadonlySet<string> = new Set(["delivery_slow", "producers_slow", "staleness_limit", "trainer_slow"]);

/** The mark of the stage that a diagnosis names. */
export const markOf = (kind: string): string => (PACE.has(kind) ? "bottleneck" : "blocked here");

const ELSEWHERE: Lane = {
  key: "elsewhere",
  label: "External environments",
  segments: [],
  aside: "outside this server, not measured",
  attributes: { "data-stage": "elsewhere" },
};

/** A stage as a line: the share of time that it works, and the share that it waits. */
function laneOf(run: RunDetail, pipeline: Pipeline, stage: PipelineStage, mark: string | undefined): Lane {
  const { title, does, to } = lookOf(stage.name, run.kind);
  const { amount, unit } = rateText(stage.rate, stage.unit);
  const share = stage.share ?? 0;
  const facts = [waitText(stage, limitText(run)), heldText(stage, pipeline.unit)].filter(Boolean).join(" · ");
  return {
    key: stage.name,
    label: (
      <>
        <Link to={to} params={{ name: run.name }} title={does}>
          {title}
        </Link>
        {mark && <span className="held small"> ▲ {mark}</span>}
      </>
    ),
    segments: [
      { key: "busy", width: share, fill: mark ? "var(--held)" : "var(--chart-1)" },
      { key: "waits", width: Math.min(stage.waits ?? 0, 1 - share), fill: striped("var(--ink-faint)") },
    ],
    words: stage.share === null ? undefined : shareText(stage, pipeline),
    aside: (
      <>
        {stage.rate === null ? stillText(stage, pipeline.workers) : `${amount} ${unit}`}
        {facts && <span className="faint"> · {facts}</span>}
      </>
    ),
    attributes: { "data-stage": stage.name, "data-marked": mark },
  };
}

/** The diagnosis of a run, and its data flow from generation to training. */
export function DataFlow({ run, diagnosis: live }: { run: RunDetail; diagnosis: Named | undefined }) {
  const { data, error, refetch } = useQuery(pipelineQuery(run.name));
  // The diagnosis and figures of one response; after a status change the live diagnosis wins.
  const diagnosis = currentDiagnosis(data?.diagnosis, run) ?? live;
  if (error && !data) return <ErrorState title="Data flow unavailable" error={error} onRetry={() => void refetch()} />;
  if (!data) return <Skeletons heights={[130, 190]} />;
  const stages = data.stages.map((stage) => laneOf(run, data, stage, diagnosis?.stage === stage.name ? markOf(diagnosis.kind) : undefined));
  return (
    <>
      {diagnosis && <Diagnosis diagnosis={diagnosis} />}
      <Panel title="Data flow" note="share of the last minute that each stage works; striped: waits">
        <Lanes isOrdered label="Stages in the order of the data flow" lanes={run.kind === "outside" ? [ELSEWHERE, ...stages] : stages} />
      </Panel>
    </>
  );
}
