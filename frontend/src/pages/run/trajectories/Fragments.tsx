import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { asked, type FragmentSummary, fragmentsQuery } from "@/api/fragments";
import type { GroupQuery } from "@/api/groups";
import type { RunDetail } from "@/api/types";
import { Age } from "@/components/Age";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { Skeletons } from "@/components/Skeletons";
import { bytes, number } from "@/format";
import { ChosenChips } from "@/pages/run/trajectories/ChosenChips";
import { chips, listSearch } from "@/pages/run/trajectories/search";
import styles from "@/pages/run/trajectories/trajectories.module.css";
import { trainerCommand } from "@/pages/run/words";
import { plain } from "@/pages/viewer/hostile";
import { FateChip } from "@/pages/viewer/marks";
import { versionsText } from "@/pages/viewer/fragment";

const TYPING_MS = 300;
const STATES = ["queued", "waiting", "leased", "served", "quarantined", "dropped"];

function Line({ run, fragment, query }: { run: string; fragment: FragmentSummary; query: GroupQuery }) {
  return (
    <tr className="opens" data-row data-fragment={fragment.id}>
      <td className={styles.what}>
        <Link to="/runs/$name/fragments/$fragment" params={{ name: run, fragment: String(fragment.id) }} className="strong" data-open>
          {plain(fragment.slot)} · {number(fragment.number)}
        </Link>
        <div className={styles.under}>
          <span className="mono">#{fragment.id}</span>
          <span>{plain(fragment.environment)}</span>
          {!fragment.contiguous && fragment.number > 0 && <span title="It does not follow the fragment before it">begins anew</span>}
        </div>
      </td>
      <td className="num">{number(fragment.steps)}</td>
      <td className="num" title={fragment.reward_sum === null ? "Open it: it is too large to look into for a list, or cannot be read" : undefined}>
        {number(fragment.reward_sum)}
      </td>
      <td className="num wide-only">{fragment.epoch}.{versionsText(fragment)}</td>
      <td className="wide-only">
        <Link to="/runs/$name/trajectories" params={{ name: run }} search={listSearch({ ...query, worker: [fragment.worker] })} className="strong">{plain(fragment.worker)}</Link>
      </td>
      <td className="wide-only"><FateChip state={fragment.state} reason={fragment.drop_reason} step={fragment.step} /></td>
      <td className="num wide-only">{bytes(fragment.size_bytes)}</td>
      <td className="num soft"><Age at={fragment.received_at} /></td>
    </tr>
  );
}

function Nothing({ run, isNarrowed }: { run: RunDetail; isNarrowed: boolean }) {
  if (isNarrowed) return <EmptyState title="No fragment matches">Take a choice away, or look for another slot.</EmptyState>;
  return (
    <EmptyState title="No fragments yet" command={trainerCommand(run, window.location.origin)}>
      Workers cut what their environments do into fragments of equal length. They begin once a trainer has published weights.
    </EmptyState>
  );
}

function Table({ run, rows, query }: { run: string; rows: FragmentSummary[]; query: GroupQuery }) {
  return (
    <div className="table-scroll">
      <table className="table">
        <caption className="unseen">Fragments, newest first</caption>
        <thead>
          <tr>
            <th scope="col">Env slot · fragment</th>
            <th scope="col" className="num" title="Env steps, padding not counted">Steps</th>
            <th scope="col" className="num" title="Sum of its rewards">Return</th>
            <th scope="col" className="num wide-only" title="Versions that acted in it">Policy</th>
            <th scope="col" className="wide-only">Worker</th>
            <th scope="col" className="wide-only">State</th>
            <th scope="col" className="num wide-only">Size</th>
            <th scope="col" className="num">Age</th>
          </tr>
        </thead>
        <tbody>{rows.map((fragment) => <Line key={fragment.id} run={run} fragment={fragment} query={query} />)}</tbody>
      </table>
    </div>
  );
}

/** What the env slots of a fleet run did, a fragment a line. */
export function Fragments({ run }: { run: RunDetail }) {
  const query: GroupQuery = useSearch({ from: "/shell/runs/$name/trajectories" });
  const navigate = useNavigate({ from: "/runs/$name/trajectories" });
  const change = (next: Record<string, unknown>, replace = false) => void navigate({ search: listSearch(next), replace });
  const find = useDebouncedCallback((q: string) => change({ ...query, q: q || undefined }, true), TYPING_MS);
  const pages = useInfiniteQuery(fragmentsQuery(run.name, asked(query)));
  const rows = pages.data?.pages.flatMap((page) => page.results) ?? [];
  const last = pages.data?.pages.at(-1);
  const chosen = chips(asked(query), (_, value) => plain(value));
  return (
    <section className={`panel ${styles.list}`} aria-label="Trajectories">
      <div className={styles.bar}>
        <TextInput data-filter type="search" size="sm" className={styles.search} aria-label="Find an env slot" placeholder="Env slot begins with … w0-3" defaultValue={query.q} onChange={(event) => find(event.currentTarget.value)} />
        <NativeSelect
          size="sm"
          aria-label="Only fragments in this state"
          value={query.state?.[0] ?? ""}
          data={[{ value: "", label: "every state" }, ...STATES]}
          onChange={(event) => change({ ...query, state: event.currentTarget.value ? [event.currentTarget.value] : undefined })}
        />
        <Button variant="default" size="sm" loading={pages.isFetching && !pages.isPending} onClick={() => void pages.refetch()}>Look again</Button>
      </div>
      <ChosenChips chosen={chosen} onChange={change} onClear={() => change({ q: query.q })} />
      {pages.isPending && <Skeletons heights={[320]} />}
      {pages.isError && <ErrorState title="The fragments cannot be listed" error={pages.error} onRetry={() => void pages.refetch()} />}
      {rows.length > 0 && <Table run={run.name} rows={rows} query={query} />}
      {last?.is_partial && <p className={styles.scope}>Looked through 20,000 fragments; there may be more further back.</p>}
      {pages.hasNextPage && (
        <div className={styles.more}>
          <Button variant="default" size="sm" loading={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
            {last?.is_partial ? "Look further back" : "Show more"}
          </Button>
        </div>
      )}
      {pages.isSuccess && rows.length === 0 && !pages.hasNextPage && <Nothing run={run} isNarrowed={chosen.length > 0 || Boolean(query.q)} />}
    </section>
  );
}
