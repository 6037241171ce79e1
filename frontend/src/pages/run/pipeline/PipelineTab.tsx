import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type Diagnosis as Named, type Pipeline, type PipelineStage, pipelineQuery } from "@/api/pipeline";
import type { RunDetail, WorkerRow } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { type Lane, Lanes, striped } from "@/components/Lanes";
import { Panel } from "@/components/Panel";
import { Panels } from "@/components/Panels";
import { Skeletons } from "@/components/Skeletons";
import { currentDiagnosis } from "@/diagnosis/current";
import { Diagnosis } from "@/diagnosis/Diagnosis";
import { number, percent } from "@/format";
import {
  barsOf,
  FILLS,
  heldText,
  limitText,
  lookOf,
  markOf,
  PARTS,
  partsOf,
  rateText,
  shareText,
  slowestFirst,
  stillText,
  trendText,
  waitText,
  waterfallOf,
} from "@/pages/run/pipeline/stages";
import { useRun } from "@/pages/run/RunContext";
import { trainerCommand, wordsOf } from "@/runs/words";

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

type FlowProps = { run: RunDetail; pipeline: Pipeline; diagnosis: Pick<Named, "kind" | "stage"> | null };

/** The data flow through the run, from generation to training. */
function Flow({ run, pipeline, diagnosis }: FlowProps) {
  const stages = pipeline.stages.map((stage) =>
    laneOf(run, pipeline, stage, diagnosis?.stage === stage.name ? markOf(diagnosis.kind) : undefined),
  );
  return (
    <Panel title="Data flow" note="share of the last minute that each stage works; striped: waits" className="span-12">
      <Lanes isOrdered label="Stages in the order of the data flow" lanes={run.kind === "outside" ? [ELSEWHERE, ...stages] : stages} />
      <p className="soft small">{trendText(pipeline)}</p>
    </Panel>
  );
}

/** One line per worker with its time by span; the gap is unaccounted time. */
function WorkerTimes({ run, workers }: { run: RunDetail; workers: WorkerRow[] }) {
  const shown = slowestFirst(workers);
  const lanes = shown.map((worker): Lane => {
    const bars = barsOf(worker.shares);
    return {
      key: worker.index,
      label: (
        <Link to="/runs/$name/fleet" params={{ name: run.name }} search={{ worker: worker.index }}>
          worker {worker.index}
        </Link>
      ),
      segments: bars.map(({ part, width }) => ({ key: part, width, fill: FILLS[part] })),
      words: `Worker ${worker.index}: ${bars.map(({ part, share }) => `${PARTS[part]} ${percent(share)}`).join(", ")}`,
      aside: `${number(worker.env_steps_per_second)} ${wordsOf(run.kind).works}/s`,
    };
  });
  return (
    <Panel
      title="Worker time"
      note={shown.length > 0 && shown.length < workers.length ? `slowest ${shown.length} of ${workers.length} workers` : "last minute"}
      className="span-12"
    >
      {shown.length === 0 ? (
        <EmptyState
          title="No worker timings yet"
          command={trainerCommand(run, location.origin)}
          needs={{ scope: "trainer", run: run.name }}
        >
          Workers include timings in every report. They start once a trainer has published weights.
        </EmptyState>
      ) : (
        <Lanes label="Workers" lanes={lanes} legend={partsOf(shown).map((part) => [FILLS[part], PARTS[part]] as const)} />
      )}
    </Panel>
  );
}

/** One env step by stage; absent if no worker steps environments. */
function EnvStep({ workers }: { workers: WorkerRow[] }) {
  const { total, segments } = waterfallOf(workers);
  if (segments.length === 0) return null;
  return (
    <Panel title="Env step" note={`${number(total)} ms between observations, mean over workers`} className="span-12">
      <Lanes
        label="Stages of an env step"
        lanes={segments.map(({ part, from, width, mean, p95 }) => ({
          key: part,
          label: PARTS[part],
          segments: [{ key: part, from, width, fill: FILLS[part] }],
          aside: `${number(mean)} ms, 95th percentile ${number(p95)} ms`,
        }))}
      />
    </Panel>
  );
}

/** The data flow of the run and its bottleneck. */
export function PipelineTab() {
  const { run, fleet, diagnosis: live } = useRun();
  const { data, error, refetch } = useQuery(pipelineQuery(run.name));
  // The diagnosis and figures of one response; after a status change the live diagnosis wins.
  const diagnosis = currentDiagnosis(data?.diagnosis, run) ?? live;
  if (error && !data) return <ErrorState title="Pipeline unavailable" error={error} onRetry={() => void refetch()} />;
  if (!data) return <Skeletons heights={[130, 190, 220]} />;
  const running = (fleet?.workers ?? []).filter(({ state }) => state === "running");
  return (
    <Panels>
      {diagnosis && <Diagnosis diagnosis={diagnosis} />}
      <Flow run={run} pipeline={data} diagnosis={diagnosis ?? null} />
      {run.kind !== "outside" && <WorkerTimes run={run} workers={running} />}
      <EnvStep workers={running} />
    </Panels>
  );
}
