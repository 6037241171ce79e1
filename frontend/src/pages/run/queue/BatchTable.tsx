import { Select } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type BatchState, batchesQuery } from "@/api/queue";
import type { BatchRow, RunDetail } from "@/api/types";
import { Age } from "@/components/Age";
import { Chip } from "@/components/Chip";
import { type Column, DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { useNow } from "@/components/now";
import { Panel } from "@/components/Panel";
import { ShowMore } from "@/components/ShowMore";
import { Skeletons } from "@/components/Skeletons";
import { count, duration, number, percent, visible } from "@/format";
import { compositionText, latencySeconds, lookOf, type Names } from "@/pages/run/queue/batches";
import queueCss from "@/pages/run/queue/queue.module.css";
import { Staleness } from "@/pages/run/queue/Staleness";
import { trainerCommand } from "@/runs/words";

const STATES: { value: BatchState; label: string }[] = [
  { value: "leased", label: "Leased" },
  { value: "returned", label: "Expired" },
  { value: "quarantined", label: "Quarantined" },
  { value: "confirmed", label: "Acknowledged" },
  { value: "dropped", label: "Released" },
];

export function BatchChip({ batch }: { batch: Pick<BatchRow, "state" | "lease_expires_at"> }) {
  const { tone, sign, words } = lookOf(batch, useNow());
  return (
    <Chip tone={tone} sign={sign} data-batch-state={batch.state}>
      {words}
    </Chip>
  );
}

function columnsOf(run: RunDetail, names: Names, state: BatchState | undefined): Column<BatchRow>[] {
  return [
    {
      ...{ id: "step", label: "Step", className: "num", value: (batch) => batch.ordinal },
      cell: (batch) => (
        <Link to="/runs/$name/queue" params={{ name: run.name }} search={{ state, batch: batch.id }} className="strong" data-open>
          {number(batch.ordinal)}
        </Link>
      ),
    },
    { id: "lease", label: "Lease", cell: (batch) => <BatchChip batch={batch} />, value: (batch) => batch.state },
    {
      ...{ id: "composition", label: `Composition · ${run.kind === "fleet" ? "fragments" : "sequences"}` },
      className: `anywhere ${queueCss.composition}`,
      cell: (batch) => visible(compositionText(batch.composition, names)),
    },
    {
      ...{ id: "tokens", label: "Tokens", className: "num", value: (batch) => batch.tokens },
      cell: (batch) => (batch.tokens ? count(batch.tokens) : "–"),
    },
    {
      ...{ id: "padding", label: "Padding", className: "num", value: (batch) => batch.padding },
      cell: (batch) => (batch.padding === null ? "–" : percent(batch.padding)),
    },
    {
      ...{ id: "trainer", label: "Trainer", className: "anywhere", value: (batch) => batch.trainer },
      cell: (batch) => (batch.trainer ? visible(batch.trainer) : "–"),
    },
    {
      ...{ id: "leased", label: "Leased", className: "num", value: (batch) => batch.leased_at },
      cell: (batch) => <Age at={batch.leased_at} suffix=" ago" />,
    },
    {
      ...{ id: "latency", label: "Latency", className: "num", value: latencySeconds },
      cell: (batch) => {
        const latency = latencySeconds(batch);
        return latency === null ? "–" : duration(latency);
      },
    },
    { id: "staleness", label: "Staleness", cell: (batch) => <Staleness staleness={batch.staleness} /> },
  ];
}

function Nothing({ run, isFiltered }: { run: RunDetail; isFiltered: boolean }) {
  const text = "A batch is formed when a trainer requests one and the queue holds enough data.";
  if (isFiltered) {
    const all = (
      <Link to="/runs/$name/queue" params={{ name: run.name }} search={{}}>
        Batches in all states
      </Link>
    );
    return (
      <EmptyState title="No batches in this state" action={all}>
        {text}
      </EmptyState>
    );
  }
  return (
    <EmptyState title="No batches leased yet" command={trainerCommand(run, location.origin)} needs={{ scope: "trainer", run: run.name }}>
      {text}
    </EmptyState>
  );
}

/** All batches, newest first, paginated. */
export function BatchTable({ run, names, rereadMs }: { run: RunDetail; names: Names; rereadMs: number }) {
  const { state } = useSearch({ from: "/shell/runs/$name/queue" });
  const navigate = useNavigate({ from: "/runs/$name/queue" });
  const batches = useInfiniteQuery({ ...batchesQuery(run.name, state), refetchInterval: rereadMs });
  const { data, error } = batches;
  const rows = data?.pages.flatMap((page) => page.results) ?? [];
  return (
    <Panel
      title="Batches"
      note="newest first"
      className="span-12"
      aside={
        <Select
          aria-label="Filter by state"
          size="xs"
          placeholder="all states"
          clearable
          data={STATES}
          value={state ?? null}
          onChange={(value) =>
            void navigate({ search: (old) => ({ ...old, state: (value ?? undefined) as BatchState | undefined }), replace: true })
          }
        />
      }
    >
      {error && <ErrorState title="Batches unavailable" error={error} />}
      {!data && !error && <Skeletons heights={[200]} />}
      {data && rows.length === 0 && <Nothing run={run} isFiltered={state !== undefined} />}
      {rows.length > 0 && (
        <DataTable
          label="Batches, newest first"
          rows={rows}
          columns={columnsOf(run, names, state)}
          keyOf={({ id }) => id}
          attributes={({ ordinal }) => ({ className: "opens", "data-row": true, "data-batch": ordinal })}
        />
      )}
      <ShowMore pages={batches} words="Show older batches" />
    </Panel>
  );
}
