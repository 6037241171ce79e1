import { Box, Group } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { BUILTIN_RETURN } from "@/api/metrics";
import type { RunDetail } from "@/api/types";
import { count, number, policyStep } from "@/format";
import { currentOf } from "@/pages/run/overview/current";
import { speedOf, useRun, useRunPart, useRunSeries } from "@/pages/run/RunContext";
import { queuedFigure } from "@/runs/queued";
import { wordsOf } from "@/runs/words";
import { newestOf } from "@/wall/drawing";
import { presetLinesQuery } from "@/wall/presets";

type FigureProps = {
  name: string;
  label: string;
  value: ReactNode;
  unit?: string;
  raw?: number | null;
  /** The chart whose title shows the same quantity. */
  chart?: string;
};

function Figure({ name, label, value, unit, raw, chart }: FigureProps) {
  return (
    <Group gap={6} align="baseline" wrap="nowrap">
      <dt className="tiny faint">{label}</dt>
      <Box component="dd" m={0} data-figure={name} data-value={raw ?? ""} data-quantity={chart}>
        <b>{value}</b> {unit && <span className="tiny faint">{unit}</span>}
      </Box>
    </Group>
  );
}

/** The mean score of an outside run: the last point of its curve, from the request of the charts. */
function Score({ run }: { run: RunDetail }) {
  const { data } = useQuery(presetLinesQuery({ runs: [run.name], axis: "time" }));
  const score = newestOf(data?.find(({ name }) => name === BUILTIN_RETURN)?.last);
  return <Figure name="return" label="Mean score, newest groups" value={count(score)} raw={score} />;
}

/** The key figures of a run. */
export function Figures() {
  const { run } = useRun();
  const fleet = useRunPart("fleet");
  const queue = useRunPart("queue") ?? undefined;
  const ledger = useRunPart("ledger");
  const last = useRunSeries("episodes").at(-1);
  const speed = speedOf(fleet);
  const steps = fleet?.env_steps_total ?? last?.env_steps_total ?? null;
  const served = queue?.served_steps ?? run.served_steps;
  const planned = run.num_steps > 0 ? `of ${count(run.num_steps)}` : undefined;
  const current = currentOf({ run, ledger, last, speed });
  const { work } = wordsOf(run.kind);
  const waiting = queuedFigure(run, queue, ledger);
  return (
    <Group component="dl" gap="0.15rem 1.5rem" m={0} mb="xs">
      {run.kind === "outside" ? (
        <Score run={run} />
      ) : (
        <Figure name="return" label="Return, last 20 episodes" value={count(current.reward)} raw={current.reward} chart="reward" />
      )}
      <Figure name="served-steps" label="Train steps served" value={number(served)} unit={planned} raw={served} />
      <Figure name="policy" label="Policy version" value={policyStep(run.policy_step)} unit={`epoch ${run.epoch}`} raw={run.policy_step} />
      {run.kind !== "outside" && <Figure name="env-steps" label={work} value={count(steps)} raw={steps} />}
      {run.kind !== "outside" && <Figure name="speed" label={`${work} per second`} value={count(speed)} raw={speed} chart="throughput" />}
      <Figure name="queued" label="Queued" value={count(waiting.value)} unit={waiting.unit} raw={waiting.value} chart="queue" />
    </Group>
  );
}
