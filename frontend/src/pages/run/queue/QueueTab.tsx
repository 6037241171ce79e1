import { Button, Group, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { BESIDE_MS, environmentsQuery, QUEUE_MS, queueQuery } from "@/api/queue";
import { useMayOperate } from "@/api/session";
import type { PreviewAnswer, QueueAnswer, RunDetail } from "@/api/types";
import { Chip } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { Facts } from "@/components/Facts";
import { Age } from "@/components/inline";
import { Line, Swatch } from "@/components/Lanes";
import { onDemand } from "@/components/onDemand";
import { ErrorState, Panel, Panels, Skeletons } from "@/components/panels";
import { counted, duration, inUnit, number, percent, visible } from "@/format";
import { usePartChangeFeed } from "@/live/live";
import { BatchTable, Composition } from "@/pages/run/queue/BatchTable";
import { type Names, namesOf } from "@/pages/run/queue/batches";
import { Ledger } from "@/pages/run/queue/Ledger";
import { useRun } from "@/pages/run/RunContext";
import { RunWall } from "@/pages/run/RunWall";
import { unitOf } from "@/runs/queued";
import { isOver } from "@/theme/chips";
import { presetsNamed } from "@/wall/presets";

const BatchDrawer = onDemand(() => import("@/pages/run/queue/BatchDrawer"), "default");
const LimitsDialog = onDemand(() => import("@/pages/run/queue/LimitsDialog"), "LimitsDialog");

const RULES = {
  tolerance: ["Queue length", "Producers pause above the limit and resume at the lower mark."],
  staleness: ["Data staleness", "Further data would exceed the limit before it is trained on."],
} as const;

function Gate({ gate: { rule, limit, amount, closed, condition } }: { gate: QueueAnswer["gates"][number] }) {
  const [name, asks] = RULES[rule];
  return (
    <Stack gap={4} mb="sm" data-gate={rule} data-closed={closed}>
      <Group gap="xs" title={asks}>
        <Chip tone={closed ? "held" : "good"} sign={closed ? "▲" : "✓"}>
          {closed ? "pauses" : "open"}
        </Chip>
        <b>{name}</b> <code className="small anywhere">{condition}</code>
      </Group>
      <Line
        words={`${name}: ${condition}`}
        segments={[{ key: rule, width: limit > 0 ? Math.min(1, amount / limit) : 0, fill: closed ? "var(--held)" : "var(--good)" }]}
      />
    </Stack>
  );
}

/** The backpressure conditions with their values, and when producers resume. */
function WhyPaused({ run, queue }: { run: RunDetail; queue: QueueAnswer }) {
  const mayOperate = useMayOperate();
  const [isChanging, setChanging] = useState(false);
  const { paused, gates, since, resumes_in_seconds, trained_per_second, unit } = queue;
  const change = mayOperate && !isOver(run.status) && (
    <Button
      size="compact-sm"
      variant="default"
      title="Change tolerance, staleness and lease of the active run"
      onClick={() => setChanging(true)}
    >
      Change limits
    </Button>
  );
  return (
    <Panel
      title={paused ? "Producers paused" : "Backpressure"}
      note={paused ? "conditions that hold producers back" : "producers are running"}
      aside={change}
      columns={6}
    >
      {gates.length === 0 ? (
        <p className="soft">The trainer sets the batch size when it registers; until then producers never pause.</p>
      ) : (
        gates.map((gate) => <Gate key={gate.rule} gate={gate} />)
      )}
      <Facts
        facts={[
          since !== null && ["Since", <Age key="since" at={since} suffix=" ago" />],
          ["Throughput", trained_per_second === null ? "no batch in 2 min" : `${inUnit(trained_per_second, unit)} per second`],
          paused && [
            "Resumes",
            <span key="resumes" data-resumes>
              {resumes_in_seconds === null
                ? "when a trainer leases batches again"
                : `in about ${duration(resumes_in_seconds)} at this rate`}
            </span>,
          ],
        ]}
      />
      {isChanging && <LimitsDialog run={run} onClose={() => setChanging(false)} />}
    </Panel>
  );
}

const fillOf = (place: number) => `var(--chart-${(place % 8) + 1})`;
type Queued = QueueAnswer["environments"][number] & { fill: string; share: number | null };

const queuedColumns = (unit: string): Column<Queued>[] => [
  {
    label: "Environment",
    className: "anywhere",
    value: ({ name }) => name,
    cell: ({ name, fill }) => (
      <>
        <Swatch fill={fill} />
        {visible(name)}
      </>
    ),
  },
  { label: `Queued · ${unit}`, isNumber: true, value: (each) => each.queued_sequences },
  { label: "Share", isNumber: true, value: ({ share }) => share, cell: ({ share }) => percent(share) },
  {
    label: "Incomplete",
    isNumber: true,
    title: "Partial groups wait until they add up to a full group",
    value: ({ waiting }) => waiting,
    cell: (each) => (
      <span data-incomplete={each.waiting}>
        {number(each.waiting)}
        {each.waiting_since && (
          <div className="faint small">
            oldest <Age at={each.waiting_since} />
          </div>
        )}
      </span>
    ),
  },
  {
    label: "Oldest",
    isNumber: true,
    title: "Age of the oldest queued item",
    value: ({ oldest_at }) => oldest_at,
    cell: ({ oldest_at }) => (oldest_at ? <Age at={oldest_at} /> : "–"),
  },
];

/** Queued items by environment, stacked against the pause threshold. */
function Depth({ queue: { environments, threshold, unit } }: { queue: QueueAnswer }) {
  const total = environments.reduce((sum, each) => sum + each.queued_sequences, 0);
  const scale = Math.max(threshold, total, 1);
  const rows = environments.map((each, place) => ({
    ...each,
    fill: fillOf(place),
    share: total ? each.queued_sequences / total : null,
  }));
  return (
    <Panel title="Depth by environment" note={<span data-quantity="queue">{`${inUnit(total, unit)} queued`}</span>} columns={6}>
      <Line
        words={`${inUnit(total, unit)} queued of the pause threshold ${number(threshold)}`}
        segments={rows.map(({ name, queued_sequences, fill }) => ({ key: name, width: queued_sequences / scale, fill }))}
        mark={threshold > 0 ? threshold / scale : undefined}
      />
      <DataTable
        label="Queue by environment"
        rows={rows}
        columns={queuedColumns(unit)}
        keyOf={({ name }) => name}
        attributes={({ name }) => ({ "data-environment": name })}
        empty={<p className="faint small">The queue is empty.</p>}
      />
    </Panel>
  );
}

const REASONS: Record<NonNullable<PreviewAnswer["reason"]>, string> = {
  unregistered: "No trainer has registered a batch size yet.",
  too_few: "Not enough sequences queued.",
  no_exact_fill: "No combination of groups adds up to exactly one batch.",
  waiting_for_minimum: "Waiting for an environment's minimum allocation.",
};

/** Preview of the next batch; does not lease it. */
function Preview({ queue, preview: data, names }: { queue: QueueAnswer; preview: PreviewAnswer; names: Names }) {
  const stale = queue.queued_sequences - data.queued_sequences;
  return (
    <Panel title="Next batch" note="preview, not leased" columns={6}>
      <p data-preview={data.reason ?? "ready"}>
        <Chip tone={data.reason ? "quiet" : "good"} sign={data.reason ? "◌" : "✓"}>
          {data.reason ? "none yet" : "ready"}
        </Chip>{" "}
        {data.reason ? (
          <>
            {REASONS[data.reason]}{" "}
            <span className="faint">
              {number(queue.queued_sequences)} of {counted(data.batch_size, "sequence")} queued
              {stale > 0 && `, ${number(stale)} of them stale`}.
            </span>
          </>
        ) : (
          <>
            {counted(data.items, "group")}, {counted(data.sequences, "sequence")}, {counted(data.tokens, "token")}
            {data.padding !== null && `, ${percent(data.padding)} padding`}
            {data.retried_batch && <span className="held"> · leased again after an expired lease</span>}
          </>
        )}
      </p>
      {!data.reason && <Composition label="Composition of the next batch" unit="Sequences" {...data} names={names} />}
    </Panel>
  );
}

/** The queue, the next batch, and all batches of the run. One response has all figures, so that they are of one moment. */
export function QueueTab() {
  const { run } = useRun();
  const search = useSearch({ from: "/shell/runs/$name/queue" });
  const navigate = useNavigate({ from: "/runs/$name/queue" });
  const topic = `run:${run.name}` as const;
  const { data, error } = useQuery({
    ...queueQuery(run.name),
    refetchInterval: usePartChangeFeed(topic, "queue", QUEUE_MS, ["queue", run.name]),
  });
  const refetchInterval = usePartChangeFeed(topic, "queue", BESIDE_MS, ["environments", run.name], ["batches", run.name]);
  const environments = useQuery({ ...environmentsQuery(run.name), refetchInterval, enabled: run.kind !== "fleet" });
  const names = namesOf(environments.data);
  const panels = useMemo(() => presetsNamed(run.kind, "queue").map((one) => ({ ...one, className: "" })), [run.kind]);
  // Panels that are shown late would move those below them.
  if (!data && !error) return <Skeletons heights={[110, 150, 180, 330]} />;
  return (
    <Panels data-at={data?.at}>
      <Ledger run={run} ledger={data?.ledger} />
      {error && <ErrorState title="Queue unavailable" error={error} />}
      {data && <WhyPaused run={run} queue={data} />}
      {data && <Depth queue={data} />}
      {data?.next_batch && <Preview queue={data} preview={data.next_batch} names={names} />}
      <RunWall
        panels={panels}
        range={search}
        onRange={(range) => void navigate({ search: (old) => ({ ...old, ...range }), replace: true, resetScroll: false })}
        className=""
        columns={run.kind === "fleet" ? 12 : 6}
        current={{ queue: data?.ledger?.[unitOf(run.kind)].queued ?? null }}
      />
      <BatchTable run={run} names={names} rereadMs={refetchInterval} />
      {search.batch && (
        <BatchDrawer
          key={search.batch}
          run={run}
          names={names}
          id={search.batch}
          onClose={() => void navigate({ search: (old) => ({ ...old, batch: undefined }) })}
        />
      )}
    </Panels>
  );
}
