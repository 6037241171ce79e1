/** The context of a point of a chart. */

import { Badge, Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, ask } from "@/api/client";
import type { components } from "@/api/schema";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import type { MetricAxis, RunDetail } from "@/api/types";
import { DataTable } from "@/components/DataTable";
import { SideSheet } from "@/components/Dialog";
import { Facts } from "@/components/Facts";
import { Age, Moment } from "@/components/inline";
import { EmptyState, ErrorState, Skeletons } from "@/components/panels";
import { clock, elapsed, number, policyStep, versionName, visible } from "@/format";
import { useAnnotate } from "@/pages/run/marks";
import { BatchChip } from "@/pages/run/queue/BatchTable";
import { trainerCommand } from "@/runs/words";
import { SampleTitle } from "@/samples/SampleTable";
import { MOST_OF_BATCHES, worstQuery } from "@/samples/samples";
import type { Picked } from "@/wall/view";

type PointDetails = components["schemas"]["MetricContext"];
type PointBatch = components["schemas"]["ContextBatch"];

type PointRange = { name: string; axis: MetricAxis; from: number; to: number };
/** Times have microsecond resolution; floating-point seconds lose the last digit. */
const ROUNDED_SECONDS = 1e-6;

export function pointDetailsQuery(run: string, { name, axis, from, to }: PointRange) {
  const isElapsed = axis === "elapsed";
  const slack = isElapsed || axis === "time" ? ROUNDED_SECONDS : 0;
  const query = { name, x: axis, from: Math.max(isElapsed ? -Infinity : 0, from - slack), to: to + slack };
  return ask(["metric-point", run, query], () => api.GET("/api/v1/runs/{run}/metrics/context", { params: { path: { run }, query } }), {
    retry: false,
  });
}

/** Annotate a point with a short text that all charts of the run show. */
function AnnotatePoint({ run, details }: { run: string; details: PointDetails }) {
  const [text, setText] = useState("");
  const annotate = useAnnotate(run);
  const mayOperate = useMayOperate();
  const send = () => {
    const { ended_at: at, step, amount } = details;
    annotate.mutate({ text, at, step, amount, reason: "" }, { onSuccess: () => setText("") });
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (text.trim()) send();
      }}
    >
      <Group align="end" gap="xs" my="md">
        <TextInput
          flex={1}
          size="xs"
          label="Annotation"
          maxLength={200}
          disabled={!mayOperate}
          value={text}
          placeholder="halved the learning rate"
          onChange={(event) => setText(event.currentTarget.value)}
        />
        <Button
          type="submit"
          size="xs"
          variant="default"
          disabled={!mayOperate || !text.trim()}
          loading={annotate.isPending}
          title={mayOperate ? undefined : TAKES_OPERATOR}
        >
          Add annotation
        </Button>
      </Group>
      {annotate.error && <ErrorState title="Annotation not added" error={annotate.error} />}
    </form>
  );
}

const WORST_SHOWN = 8;

type Props = { run: RunDetail; point: Picked; axis: MetricAxis; unit: string; onClose: () => void };

function titleOf({ metric, from, to }: Picked, axis: MetricAxis, unit: string): string {
  const words = { time: (x: number) => clock(x * 1000), elapsed, step: number, amount: number };
  const at = (x: number) => words[axis](x);
  const where = from === to ? at(to) : `${at(from)} to ${at(to)}`;
  if (axis === "elapsed") return `${visible(metric)} at ${where} ${unit}`;
  return `${visible(metric)} at ${axis === "time" ? "" : `${unit} `}${where}`;
}

/** When the samples of the point arrived, and the weights then. */
function PointFacts({ run, details }: { run: string; details: PointDetails }) {
  const { began_at, ended_at, version } = details;
  const received = (
    <>
      {began_at !== ended_at && (
        <>
          <Moment at={began_at} /> to{" "}
        </>
      )}
      <Moment at={ended_at} />, <Age at={ended_at} suffix=" ago" />
    </>
  );
  const weights = version ? (
    <>
      <Link to="/runs/$name/weights" params={{ name: run }} search={{ version: version.id }}>
        version {versionName(version.epoch, version.step)}
      </Link>
      , published <Moment at={version.published_at} />
    </>
  ) : (
    "none published yet"
  );
  const related = (
    <Link to="/runs/$name/logs" params={{ name: run }} search={{ at: Date.parse(ended_at) / 1000 }}>
      Events and logs at this time
    </Link>
  );
  return (
    <Facts
      facts={[
        ["Received", received],
        ["Weights", weights],
        ["Related", related],
      ]}
    />
  );
}

/** The worst samples of the batches at the point, with links to their readers. */
function Worst({ run, batches }: { run: RunDetail; batches: PointBatch[] }) {
  const isGroups = run.kind !== "fleet";
  const q = `batch:${batches.map(({ id }) => id).join(",")}`;
  const kind = isGroups ? "group" : "fragment";
  const list = isGroups ? { q, sort: "score" as const } : { q };
  const { data, error } = useQuery(worstQuery(run.name, kind, q));
  if (error && !data) return <ErrorState title="Samples unavailable" error={error} />;
  if (!data) return <Skeletons heights={[160]} />;
  if (data.length === 0) return <p className="faint small">The batch was released; its items are back in the queue.</p>;
  return (
    <>
      <h3>{isGroups ? "Lowest scores" : "Lowest returns"}</h3>
      {!isGroups && data.length >= MOST_OF_BATCHES && <p className="faint small">Of the newest {MOST_OF_BATCHES} fragments.</p>}
      <DataTable
        label={isGroups ? "Groups with the lowest scores" : "Fragments with the lowest returns"}
        rows={data.slice(0, WORST_SHOWN)}
        keyOf={({ id }) => id}
        columns={[
          {
            label: isGroups ? "Prompt → answer" : "Slot · fragment",
            cell: (sample) => (
              <Text component="div" fz="md" truncate maw="16rem">
                <SampleTitle sample={sample} list={list} />
              </Text>
            ),
          },
          { label: isGroups ? "Score" : "Return", isNumber: true, cell: ({ score }) => number(score) },
          { label: "Weights", isNumber: true, cell: ({ policy_step }) => policyStep(policy_step) },
        ]}
      />
      <p className="small">
        <Link to="/runs/$name/trajectories" params={{ name: run.name }} search={{ ...list, kind: isGroups ? undefined : "fragment" }}>
          View all in Samples
        </Link>
      </p>
    </>
  );
}

function Batches({ run, details }: { run: RunDetail; details: PointDetails }) {
  const { batches, handed_out } = details;
  if (batches.length === 0 && run.served_steps > 0)
    return (
      <EmptyState
        title="Batch not formed yet"
        action={
          <Link to="/runs/$name/trajectories" params={{ name: run.name }} search={{ q: "state:queued" }}>
            View queued samples
          </Link>
        }
      >
        The samples of this point are queued.
      </EmptyState>
    );
  if (batches.length === 0)
    return (
      <EmptyState
        title="No batch leased before this point"
        command={trainerCommand(run, location.origin)}
        needs={{ scope: "trainer", run: run.name }}
      >
        The first batch goes to the first trainer that requests one.
      </EmptyState>
    );
  return (
    <>
      <h3>Batches leased at this point</h3>
      {handed_out > 1 && (
        <p className="small soft">
          {number(handed_out)} in the time range of this point
          {handed_out > batches.length ? `; the newest ${batches.length} are shown` : ""}. Zoom in for single batches.
        </p>
      )}
      <Stack gap="xs">
        {batches.map((batch) => (
          <Group key={batch.id} gap="0.15rem 0.5rem">
            <Link to="/runs/$name/queue" params={{ name: run.name }} search={{ batch: batch.id }}>
              batch {number(batch.ordinal)}
            </Link>
            <BatchChip batch={batch} />
            {batch.with_trainer && <Badge title="Held by a trainer in the time range of this point">active</Badge>}
            <span className="faint small">
              leased <Moment at={batch.leased_at} />
              {batch.trainer ? ` to ${visible(batch.trainer)}` : ""}, weights {versionName(batch.epoch, batch.policy_step)}
            </span>
          </Group>
        ))}
      </Stack>
      <Worst run={run} batches={batches} />
    </>
  );
}

/** Details of a chart point: its weights and batches, and their contents. */
export default function PointDrawer({ run, point, axis, unit, onClose }: Props) {
  const { data, error } = useQuery(pointDetailsQuery(run.name, { name: point.metric, axis, from: point.from, to: point.to }));
  return (
    <SideSheet onClose={onClose} size="md" title={titleOf(point, axis, unit)} isBeside>
      {error && <ErrorState title="Point details unavailable" error={error} />}
      {!data && !error && <Skeletons heights={[70, 120, 220]} />}
      {data && (
        <>
          <PointFacts run={run.name} details={data} />
          <AnnotatePoint run={run.name} details={data} />
          <Batches run={run} details={data} />
        </>
      )}
    </SideSheet>
  );
}
