import { Select } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type BatchState, batchesQuery } from "@/api/queue";
import type { BatchRow, RunDetail } from "@/api/types";
import { Age } from "@/components/Age";
import { Chip } from "@/components/Chip";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { useNow } from "@/components/now";
import { Panel } from "@/components/Panel";
import { ShowMore } from "@/components/ShowMore";
import { Skeletons } from "@/components/Skeletons";
import { Table } from "@/components/Table";
import { count, duration, number, percent, visible } from "@/format";
import { compositionText, latencySeconds, lookOf, type Names } from "@/pages/run/queue/batches";
import { Staleness } from "@/pages/run/queue/Staleness";
import { trainerCommand } from "@/pages/run/words";

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

function Row({ run, batch, names, state }: { run: RunDetail; batch: BatchRow; names: Names; state: BatchState | undefined }) {
  const latency = latencySeconds(batch);
  return (
    <tr data-row className="opens" data-batch={batch.ordinal}>
      <td className="num">
        <Link to="/runs/$name/queue" params={{ name: run.name }} search={{ state, batch: batch.id }} className="strong" data-open>
          {number(batch.ordinal)}
        </Link>
      </td>
      <td>
        <BatchChip batch={batch} />
      </td>
      <td className="anywhere composition">{visible(compositionText(batch.composition, names))}</td>
      <td className="num">{batch.tokens ? count(batch.tokens) : "–"}</td>
      <td className="num">{batch.padding === null ? "–" : percent(batch.padding)}</td>
      <td className="anywhere">{batch.trainer ? visible(batch.trainer) : "–"}</td>
      <td className="num">
        <Age at={batch.leased_at} suffix=" ago" />
      </td>
      <td className="num">{latency === null ? "–" : duration(latency)}</td>
      <td>
        <Staleness staleness={batch.staleness} />
      </td>
    </tr>
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
      {data && rows.length === 0 && (
        <EmptyState
          title={state ? "No batches in this state" : "No batches leased yet"}
          command={state ? undefined : trainerCommand(run, location.origin)}
          needs={{ scope: "trainer", run: run.name }}
        >
          A batch is formed when a trainer requests one and the queue holds enough data.
        </EmptyState>
      )}
      {rows.length > 0 && (
        <Table
          label="Batches, newest first"
          columns={[
            { label: "Step", className: "num" },
            { label: "Lease" },
            { label: <>Composition · {run.kind === "fleet" ? "fragments" : "sequences"}</> },
            { label: "Tokens", className: "num" },
            { label: "Padding", className: "num" },
            "Trainer",
            { label: "Leased", className: "num" },
            { label: "Latency", className: "num" },
            { label: "Staleness" },
          ]}
        >
          {rows.map((batch) => (
            <Row key={batch.id} run={run} batch={batch} names={names} state={state} />
          ))}
        </Table>
      )}
      <ShowMore pages={batches} words="Show older batches" />
    </Panel>
  );
}
