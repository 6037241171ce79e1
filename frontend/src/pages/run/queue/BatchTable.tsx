import { Select } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type BatchState, batchesQuery } from "@/api/queue";
import type { BatchRow, RunDetail } from "@/api/types";
import { Chip } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { Age, AppLink, Hint, useNow } from "@/components/inline";
import { EmptyState, Panel } from "@/components/panels";
import { count, duration, number, percent, visible } from "@/format";
import { NoDataYet } from "@/pages/run/NoDataYet";
import { compositionText, LOOKS, latencySeconds, lookOf, type Names, nameIn, stalenessBars } from "@/pages/run/queue/batches";
import css from "./queue.module.css";

/** The filter by state: `Leased`, `Expired` … */
const STATES = Object.entries(LOOKS).map(([value, { words }]) => ({ value, label: words.replace(/^./, (letter) => letter.toUpperCase()) }));

export function BatchChip({ batch }: { batch: Pick<BatchRow, "state" | "lease_expires_at"> }) {
  const { tone, sign, words } = lookOf(batch, useNow());
  return (
    <Chip tone={tone} sign={sign} data-batch-state={batch.state}>
      {words}
    </Chip>
  );
}

/** A small histogram of a batch's items by versions behind. */
export function Staleness({ staleness }: { staleness: Record<string, number> }) {
  const bars = stalenessBars(staleness);
  if (bars.length === 0) return <span className="faint">–</span>;
  const words = bars.map(({ versions, items, part }) => `${versions} behind: ${number(items)} (${percent(part)})`);
  return (
    <Hint label={words.map((line) => <div key={line}>{line}</div>)}>
      <span className={css.spark} role="img" aria-label={words.join("; ")} tabIndex={0}>
        {bars.map(({ versions, part }) => (
          <span key={versions} style={{ height: `${Math.max(8, 100 * part)}%`, background: `var(--older-${Math.min(versions, 4)})` }} />
        ))}
      </span>
    </Hint>
  );
}

type Share = { name: string; items: number; share: number; target: number | undefined };
type CompositionProps = { label: string; unit: string; composition: Record<string, number>; shares: Record<string, number>; names: Names };

/** The share of each environment in a batch, beside its share by weight. */
export function Composition({ label, unit, composition, shares, names }: CompositionProps) {
  const total = Object.values(composition).reduce((sum, each) => sum + each, 0) || 1;
  const keys = [...new Set([...Object.keys(composition), ...Object.keys(shares)])].sort();
  const rows = keys.map((key) => {
    const items = composition[key] ?? 0;
    return { name: nameIn(names, key), items, share: items / total, target: shares[key] };
  });
  const columns: Column<Share>[] = [
    { label: "Environment", className: "anywhere", value: ({ name }) => name },
    { label: unit, isNumber: true, value: ({ items }) => items },
    { label: "Share", isNumber: true, value: ({ share }) => share, cell: ({ share }) => percent(share) },
    { label: "Target share", className: "soft", isNumber: true, value: ({ target }) => target, cell: ({ target }) => percent(target) },
  ];
  return <DataTable label={label} rows={rows} columns={columns} keyOf={({ name }) => name} />;
}

function columnsOf(run: RunDetail, names: Names, state: BatchState | undefined): Column<BatchRow>[] {
  return [
    {
      label: "Step",
      isNumber: true,
      value: (batch) => batch.ordinal,
      cell: (batch) => (
        <Link to="/runs/$name/queue" params={{ name: run.name }} search={{ state, batch: batch.id }} data-open>
          {number(batch.ordinal)}
        </Link>
      ),
    },
    { label: "Lease", cell: (batch) => <BatchChip batch={batch} />, value: (batch) => batch.state },
    {
      label: `Composition · ${run.kind === "fleet" ? "fragments" : "sequences"}`,
      className: `anywhere ${css.composition}`,
      cell: (batch) => visible(compositionText(batch.composition, names)),
    },
    { label: "Tokens", isNumber: true, value: ({ tokens }) => tokens, cell: ({ tokens }) => (tokens ? count(tokens) : "–") },
    { label: "Padding", isNumber: true, value: ({ padding }) => padding, cell: ({ padding }) => percent(padding) },
    { label: "Trainer", className: "anywhere", value: ({ trainer }) => trainer },
    {
      label: "Leased",
      isNumber: true,
      value: ({ leased_at }) => leased_at,
      cell: ({ leased_at }) => <Age at={leased_at} suffix=" ago" />,
    },
    { label: "Latency", isNumber: true, value: latencySeconds, cell: (batch) => duration(latencySeconds(batch)) },
    { label: "Staleness", cell: ({ staleness }) => <Staleness staleness={staleness} /> },
  ];
}

function Nothing({ run, isFiltered }: { run: RunDetail; isFiltered: boolean }) {
  const text = "A batch is formed when a trainer requests one and the queue holds enough data.";
  if (!isFiltered) return <NoDataYet title="No batches leased yet">{text}</NoDataYet>;
  const all = <AppLink to={`/runs/${encodeURIComponent(run.name)}/queue`}>Batches in all states</AppLink>;
  return (
    <EmptyState title="No batches in this state" action={all}>
      {text}
    </EmptyState>
  );
}

/** All batches, newest first, paginated. */
export function BatchTable({ run, names, rereadMs }: { run: RunDetail; names: Names; rereadMs: number }) {
  const { state } = useSearch({ from: "/shell/runs/$name/queue" });
  const navigate = useNavigate({ from: "/runs/$name/queue" });
  const batches = useInfiniteQuery({ ...batchesQuery(run.name, state), refetchInterval: rereadMs });
  return (
    <Panel
      title="Batches"
      note="newest first"
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
      <DataTable
        label="Batches, newest first"
        rows={batches.data?.pages.flatMap((page) => page.results)}
        error={batches.error}
        columns={columnsOf(run, names, state)}
        keyOf={({ id }) => id}
        attributes={({ ordinal }) => ({ "data-opens": true, "data-row": true, "data-batch": ordinal })}
        empty={<Nothing run={run} isFiltered={state !== undefined} />}
        pages={batches}
      />
    </Panel>
  );
}
