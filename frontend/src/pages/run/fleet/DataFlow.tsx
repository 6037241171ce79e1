import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type Diagnosis as Named, type Pipeline, type PipelineStage, pipelineQuery, QUEUE_MS, type StageName } from "@/api/queue";
import type { RunDetail } from "@/api/types";
import { type Lane, Lanes, striped } from "@/components/Lanes";
import { ErrorState, Panel, Skeletons } from "@/components/panels";
import { currentDiagnosis, Diagnosis } from "@/diagnosis/Diagnosis";
import { counted, duration, inUnit, number, percent, preciseDuration } from "@/format";
import { usePartChangeFeed } from "@/live/live";

type Place = "/runs/$name/fleet" | "/runs/$name/queue" | "/runs/$name/trajectories" | "/runs/$name/weights";

/** The title of each stage, and the page of its figures. */
const STAGES: Record<StageName, [title: string, to: Place]> = {
  step: ["Environments", "/runs/$name/fleet"],
  exchange: ["Observations and actions", "/runs/$name/fleet"],
  infer: ["Policy", "/runs/$name/fleet"],
  push: ["Push", "/runs/$name/trajectories"],
  queue: ["Queue", "/runs/$name/queue"],
  batch: ["Batches", "/runs/$name/queue"],
  train: ["Trainer", "/runs/$name/weights"],
};

/** A rate per second, or per minute if small; without one, why. */
export function rateText({ name, rate, share, unit }: Pick<PipelineStage, "name" | "rate" | "share" | "unit">, workers: number): string {
  if (rate !== null) return rate > 0 && rate < 0.1 ? `${inUnit(60 * rate, unit)} per minute` : `${inUnit(rate, unit)} per second`;
  // Forward passes are not counted: they belong to the env steps of the previous stage.
  if (name === "step" || name === "exchange" || name === "infer")
    return share !== null ? "every step" : workers > 0 ? "not measured yet" : "no running workers";
  return "none in the last minute";
}

/** How much a stage waits, and for what; `room` is the limit on how far workers may run ahead of the trainer. */
export function waitText({ waits, waits_for }: Pick<PipelineStage, "waits" | "waits_for">, most: number | null): string {
  if (waits === null) return "";
  if (waits < 0.005) return "never waits";
  if (waits_for !== "room") return `waits ${percent(waits)} of the time${waits_for && ` for ${waits_for}`}`;
  return `held back ${percent(waits)} of the time by ${most === null ? "the off-policy tolerance" : `the staleness limit (${number(most)})`}`;
}

/** The contents of a stage, and the time items spend in it. */
export function heldText({ name, held, seconds }: Pick<PipelineStage, "name" | "held" | "seconds">, unit: string): string {
  const parts = {
    push: [held !== null && `${number(held)} waiting to be sent`],
    queue: [`${inUnit(held ?? 0, unit)} queued`, seconds !== null && `${duration(seconds)} each`],
    batch: [
      held !== null && `${counted(held, "complete batch")} available`,
      seconds !== null && `${preciseDuration(seconds)} delivery time`,
    ],
    train: [seconds !== null && `${preciseDuration(seconds)} per batch`],
  }[name as string];
  return (parts ?? []).filter(Boolean).join(" · ");
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

/** A stage as a line: the share of time that it works, or of its tolerance that is queued, and the share that it waits. */
function laneOf(run: RunDetail, { unit, queued, pause_above, workers }: Pipeline, stage: PipelineStage, mark: string | undefined): Lane {
  const { name } = stage;
  const [title, to] = STAGES[name];
  const share = stage.share ?? 0;
  const facts = [waitText(stage, run.max_staleness), heldText(stage, unit)].filter(Boolean).join(" · ");
  const words =
    name === "queue" ? `${percent(pause_above ? queued / pause_above : share)} of its tolerance` : `busy ${percent(share)} of the time`;
  return {
    key: name,
    label: (
      <>
        <Link to={to} params={{ name: run.name }}>
          {name === "infer" && run.kind === "language" ? "Model" : title}
        </Link>
        {mark && <span className="held small"> ▲ {mark}</span>}
      </>
    ),
    segments: [
      { key: "busy", width: share, fill: mark ? "var(--held)" : "var(--chart-1)" },
      { key: "waits", width: Math.min(stage.waits ?? 0, 1 - share), fill: striped("var(--ink-faint)") },
    ],
    words: stage.share === null ? undefined : words,
    aside: (
      <>
        {rateText(stage, workers)}
        {facts && <span className="faint"> · {facts}</span>}
      </>
    ),
    attributes: { "data-stage": name, "data-marked": mark },
  };
}

/** The diagnosis of a run, and its data flow from generation to training. */
export function DataFlow({ run, diagnosis: live }: { run: RunDetail; diagnosis: Named | undefined }) {
  const [topic, key] = [`run:${run.name}` as const, pipelineQuery(run.name).queryKey];
  usePartChangeFeed(topic, "fleet", QUEUE_MS, key);
  const refetchInterval = usePartChangeFeed(topic, "ledger", QUEUE_MS, key);
  const { data, error, refetch } = useQuery({ ...pipelineQuery(run.name), refetchInterval });
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
