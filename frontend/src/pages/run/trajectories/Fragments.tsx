import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { asked, fragmentsQuery } from "@/api/fragments";
import type { GroupQuery } from "@/api/groups";
import type { RunDetail } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { ShowMore } from "@/components/ShowMore";
import { Skeletons } from "@/components/Skeletons";
import { visible } from "@/format";
import { ChosenChips } from "@/pages/run/trajectories/ChosenChips";
import { FleetViews } from "@/pages/run/trajectories/Episodes";
import { FragmentTable } from "@/pages/run/trajectories/FragmentTable";
import { chips, listSearch } from "@/pages/run/trajectories/search";
import styles from "@/pages/run/trajectories/trajectories.module.css";
import { trainerCommand } from "@/pages/run/words";

const TYPING_MS = 300;
const STATES = ["queued", "waiting", "leased", "served", "quarantined", "dropped"];

function Nothing({ run, isNarrowed }: { run: RunDetail; isNarrowed: boolean }) {
  if (isNarrowed) return <EmptyState title="No matching fragments">Remove a filter, or search for another slot.</EmptyState>;
  return (
    <EmptyState title="No fragments yet" command={trainerCommand(run, location.origin)} needs={{ scope: "trainer", run: run.name }}>
      Workers cut episodes into fragments of equal length. They start once a trainer has published weights.
    </EmptyState>
  );
}

/** The fragments of a fleet run, one per row. */
export function Fragments({ run }: { run: RunDetail }) {
  const query: GroupQuery = useSearch({ from: "/shell/runs/$name/trajectories" });
  const navigate = useNavigate({ from: "/runs/$name/trajectories" });
  const change = (next: Record<string, unknown>, replace = false) => void navigate({ search: listSearch(next), replace });
  const find = useDebouncedCallback((q: string) => change({ ...query, q: q || undefined }, true), TYPING_MS);
  const pages = useInfiniteQuery(fragmentsQuery(run.name, asked(query)));
  const rows = pages.data?.pages.flatMap((page) => page.results) ?? [];
  const last = pages.data?.pages.at(-1);
  const chosen = chips(asked(query), (_, value) => visible(value));
  return (
    <section className={`panel ${styles.list}`} aria-label="Samples">
      <div className={styles.bar}>
        <FleetViews run={run.name} shown="fragments" />
        <TextInput
          data-filter
          type="search"
          size="sm"
          className={styles.search}
          aria-label="Find an env slot"
          placeholder="Env slot prefix, e.g. w0-3"
          defaultValue={query.q}
          onChange={(event) => find(event.currentTarget.value)}
        />
        <NativeSelect
          size="sm"
          aria-label="Filter by state"
          value={query.state?.[0] ?? ""}
          data={[{ value: "", label: "all states" }, ...STATES]}
          onChange={(event) => change({ ...query, state: event.currentTarget.value ? [event.currentTarget.value] : undefined })}
        />
        <Button variant="default" size="sm" loading={pages.isFetching && !pages.isPending} onClick={() => void pages.refetch()}>
          Refresh
        </Button>
      </div>
      <ChosenChips chosen={chosen} onChange={change} onClear={() => change({ q: query.q })} />
      {pages.isPending && <Skeletons heights={[320]} />}
      {pages.isError && <ErrorState title="Fragments unavailable" error={pages.error} onRetry={() => void pages.refetch()} />}
      {rows.length > 0 && <FragmentTable run={run.name} rows={rows} query={query} />}
      {last?.is_partial && (
        <p className={styles.scope}>
          {query.episode ? "The episode is too long to search completely." : "Searched 20,000 fragments; older ones may match too."}
        </p>
      )}
      <ShowMore pages={pages} words={last?.is_partial ? "Search older" : undefined} />
      {pages.isSuccess && rows.length === 0 && !pages.hasNextPage && (
        <Nothing run={run} isNarrowed={chosen.length > 0 || Boolean(query.q)} />
      )}
    </section>
  );
}
