import { Button, NativeSelect } from "@mantine/core";
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { exportUrl, facetsQuery, type GroupFacets, type GroupQuery, groupsQuery } from "@/api/groups";
import { markWordsQuery } from "@/api/marks";
import { useMayOperate } from "@/api/session";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { ShowMore } from "@/components/ShowMore";
import { Skeletons } from "@/components/Skeletons";
import { TypedInput } from "@/components/TypedInput";
import { count, counted, number, visible } from "@/format";
import { SelectionBar } from "@/marks/SelectionBar";
import { useMarkKeys } from "@/marks/useMarkKeys";
import { useRun } from "@/pages/run/RunContext";
import { ChosenChips } from "@/pages/run/trajectories/ChosenChips";
import { Episodes } from "@/pages/run/trajectories/Episodes";
import { FacetRail } from "@/pages/run/trajectories/FacetRail";
import { Fragments } from "@/pages/run/trajectories/Fragments";
import { GroupTable } from "@/pages/run/trajectories/GroupTable";
import { type Choice, chips, listSearch, SORTS } from "@/pages/run/trajectories/search";
import styles from "@/pages/run/trajectories/trajectories.module.css";

function SearchBox({ text, onSearch }: { text: string; onSearch: (text: string) => void }) {
  return (
    <TypedInput
      data-filter
      type="search"
      size="sm"
      className={styles.search}
      aria-label="Search messages"
      placeholder={'Search messages: word "exact phrase" -without'}
      value={text}
      onTyped={onSearch}
    />
  );
}

/** The number of searched groups, to qualify the counts. */
function Scope({ facets, isSearch }: { facets: GroupFacets; isSearch: boolean }) {
  const isAll = facets.examined < 10_000;
  return (
    <p className={styles.scope} role="status">
      <b>{number(facets.matching)}</b> {isAll ? "groups match" : `of the newest ${number(facets.examined)} match`}
      {!isAll || facets.total > facets.examined ? ` · ${count(facets.total)} in the run` : ""}
      {facets.undigested > 0 && (
        <span title="Lessons, flags, per-sequence scores and text are indexed a few seconds after a group is received">
          {" "}
          · {facets.undigested >= 10_000 ? "10,000+" : number(facets.undigested)} not indexed yet
        </span>
      )}
      {isSearch && facets.partly_searchable > 0 && (
        <span title="Of a group with over 64,000 characters of text, the beginning and the end of each longer message are searched; of one that an earlier version indexed, the first 6,000 characters">
          {" "}
          · {counted(facets.partly_searchable, "group")} searched in part
        </span>
      )}
    </p>
  );
}

/** The number of groups accepted since the list was read; a click reads it again. */
function NewGroups({ readAt, onShow }: { readAt: number; onShow: () => void }) {
  const { ledger } = useRun();
  const accepted = ledger?.groups.accepted;
  const known = useRef<{ readAt: number; accepted: number | undefined }>({ readAt: 0, accepted: undefined });
  if (known.current.readAt !== readAt || known.current.accepted === undefined) known.current = { readAt, accepted };
  const fresh = (accepted ?? 0) - (known.current.accepted ?? 0);
  if (fresh <= 0) return null;
  return (
    <Button size="compact-xs" variant="light" onClick={onShow}>
      Show {number(fresh)} new
    </Button>
  );
}

/** Trajectory groups, or fragments and episodes of an environment fleet. */
export function TrajectoriesTab() {
  const { run } = useRun();
  const { show } = useSearch({ from: "/shell/runs/$name/trajectories" });
  if (run.kind !== "fleet") return <Groups />;
  return show === "episodes" ? <Episodes run={run} /> : <Fragments run={run} />;
}

function Groups() {
  const { run } = useRun();
  // The address also has the parameters of the run's page.
  const query = listSearch(useSearch({ from: "/shell/runs/$name/trajectories" }));
  const navigate = useNavigate({ from: "/runs/$name/trajectories" });
  const change = (next: GroupQuery, replace = false) => void navigate({ search: next, replace });
  const facets = useQuery(facetsQuery(run.name, query));
  const pages = useInfiniteQuery({
    queryKey: ["group-pages", run.name, query],
    queryFn: ({ pageParam, client }) => client.fetchQuery(groupsQuery(run.name, query, pageParam || undefined)),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
  });
  const labelOf = (name: Choice, value: string) => visible(facets.data?.facets[name]?.find((each) => each.value === value)?.label ?? value);
  const groups = pages.data?.pages.flatMap((page) => page.results) ?? [];
  const words = useQuery(markWordsQuery(run.name)).data;
  const queries = useQueryClient();
  const mayOperate = useMayOperate();
  const [picked, setPicked] = useState<ReadonlySet<number>>(new Set());
  const chosenGroups = groups.filter(({ id }) => picked.has(id));
  const marking = useMarkKeys(run.name, groups, chosenGroups);
  const choose = (ids: number[], isOn: boolean) =>
    setPicked((before) => new Set(isOn ? [...before, ...ids] : [...before].filter((id) => !ids.includes(id))));
  const readAgain = () => {
    queries.removeQueries({ queryKey: ["groups", run.name] });
    void Promise.all([pages.refetch(), facets.refetch()]);
  };
  const last = pages.data?.pages.at(-1);
  const chosen = chips(query, labelOf);
  const isNarrowed = chosen.length > 0 || Boolean(query.q);
  return (
    <div className={styles.page}>
      <aside className={`panel ${styles.rail}`} aria-label="Facets">
        <details open={window.innerWidth > 900 || undefined}>
          <summary>Facets</summary>
          <FacetRail facets={facets.data} query={query} onChange={change} />
        </details>
      </aside>
      <section className={`panel ${styles.list}`} aria-label="Samples">
        <div className={styles.bar}>
          <SearchBox text={query.q ?? ""} onSearch={(q) => change(listSearch({ ...query, q: q || undefined }), true)} />
          <NativeSelect
            size="sm"
            aria-label="Order"
            value={query.sort ?? "newest"}
            data={SORTS.map(([value, label]) => ({ value, label }))}
            onChange={(event) => change(listSearch({ ...query, sort: event.currentTarget.value }))}
          />
        </div>
        <p className={styles.exports}>
          <span className="faint">Export:</span>
          <a href={exportUrl(run.name, query, "jsonl")} download>
            JSONL
          </a>
          <a href={exportUrl(run.name, query, "parquet")} download>
            Parquet
          </a>
          <a href={exportUrl(run.name, query, "inspect")} download title="Opens in the viewer of Inspect: inspect view">
            Inspect log
          </a>
        </p>
        <ChosenChips chosen={chosen} onChange={change} onClear={() => change(listSearch({ sort: query.sort }))} />
        {marking.isError && <ErrorState title="Change failed" error={marking.error} />}
        {facets.data && <Scope facets={facets.data} isSearch={Boolean(query.q)} />}
        {pages.isSuccess && <NewGroups readAt={pages.dataUpdatedAt} onShow={readAgain} />}
        {pages.isPending && <Skeletons heights={[320]} />}
        {pages.isError && <ErrorState title="Groups unavailable" error={pages.error} onRetry={() => void pages.refetch()} />}
        {chosenGroups.length > 0 && (
          <SelectionBar run={run.name} groups={chosenGroups} words={words} onClear={() => setPicked(new Set())} />
        )}
        {groups.length > 0 && (
          <GroupTable
            run={run.name}
            groups={groups}
            query={query}
            words={words}
            chosen={new Set(chosenGroups.map(({ id }) => id))}
            onChoose={mayOperate ? choose : undefined}
          />
        )}
        {last?.is_partial && <p className={styles.scope}>Searched 50,000 groups; older ones may match too.</p>}
        <ShowMore pages={pages} words={last?.is_partial ? "Search older" : undefined} />
        {pages.isSuccess && groups.length === 0 && !pages.hasNextPage && (
          <Nothing isNarrowed={isNarrowed} run={run.name} kind={run.kind} onClear={() => change({})} />
        )}
      </section>
    </div>
  );
}

function Nothing({ isNarrowed, run, kind, onClear }: { isNarrowed: boolean; run: string; kind: string; onClear: () => void }) {
  if (isNarrowed) {
    return (
      <EmptyState
        title="No matching groups"
        action={
          <Button variant="default" size="sm" onClick={onClear}>
            Show all groups
          </Button>
        }
      >
        Remove a filter, or change the search.
      </EmptyState>
    );
  }
  const command =
    kind === "outside"
      ? `curl -X POST ${window.location.origin}/atropos/${run}/scored_data -H "Authorization: Bearer $ROLLDECK_TOKEN" -H "Content-Type: application/json" -d '{"tokens": [[1, 2], [1, 3]], "masks": [[-100, 2], [-100, 3]], "scores": [1.0, 0.0]}'`
      : `curl -X POST ${window.location.origin}/api/v1/runs/${run}/start -H "Authorization: Bearer $ROLLDECK_TOKEN"`;
  return (
    <EmptyState title="No trajectories yet" command={command} needs={{ scope: kind === "outside" ? "env" : "user", run }}>
      Shows every sequence group of the run: messages, tokens, masks, scores and its state.
    </EmptyState>
  );
}
