import { Box, Button, Group, Paper, Space } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useRef, useState } from "react";
import { ApiProblem } from "@/api/client";
import {
  type Action,
  columnsQuery,
  isNamed,
  NEWEST,
  qualifiersQuery,
  runActivityQuery,
  runsQuery,
  useRunsRefresh,
  VALUES_OF,
  valuesQuery,
  type Which,
} from "@/api/runs";
import { useMayOperate } from "@/api/session";
import { COLUMNS_BUTTON, ColumnsMenu } from "@/components/columns/columnsButton";
import { FilterBox } from "@/components/filter/FilterBox";
import { Hint } from "@/components/inline";
import { MenuButton, onDemand } from "@/components/onDemand";
import { Boundary, EmptyState, ErrorState, Skeletons, useOutage } from "@/components/panels";
import { ShowMore } from "@/components/Table";
import { counted, visible } from "@/format";
import { useLiveRuns } from "@/live/live";
import { COLUMNS, columnsOf, NAMED_AT_MOST, wordOf } from "@/runs/columns";
import { RunsTable } from "@/runs/RunsTable";
import { restingIds, shownRuns, unknownIds } from "@/runs/rows";
import type { RunsSearch } from "@/runs/search";
import { RUNS_AT_MOST } from "@/wall/view";
import css from "./runs.module.css";

const menus = () => import("@/runs/menus");
const BulkDialog = onDemand(menus, "BulkDialog");
const BulkMenu = onDemand(menus, "BulkMenu");
const GROUPS = [
  { id: "project", label: "Project" },
  { id: "tag", label: "Tag" },
];

const COUNTED_AT_MOST = 10_000;
const SLOW_MS = 60_000;

type Props = {
  heading: ReactNode;
  /** Filter, order and columns, from the URL. */
  look: RunsSearch;
  onLook: (next: RunsSearch, replace: boolean) => void;
  /** Beside the filter, unless there are no runs. */
  aside?: ReactNode;
  /** Shown without any run. */
  empty: ReactNode;
};

/** A list of runs with its filter, columns and bulk actions. */
export function RunList({ heading, look: shownLook, onLook, aside, empty }: Props) {
  const { q = "", sort = NEWEST, cols, group } = shownLook;
  const mayOperate = useMayOperate();
  const live = useLiveRuns();
  const columns = columnsOf(cols);
  const { data: qualifiers = [] } = useQuery(qualifiersQuery);
  const named = [...new Set([...columns.map(({ id }) => id), group ?? ""])].filter(isNamed);
  const refetchInterval = useRunsRefresh(live, q !== "" || sort !== NEWEST || named.length > 0);
  const list = useInfiniteQuery({ ...runsQuery(q, sort, named), refetchInterval });
  const problem = list.error instanceof ApiProblem && list.error.status === 400 ? list.error : null;
  // While the filter is invalid, show the rows of the last valid filter.
  const lastGood = useRef(list.data);
  if (list.isSuccess) lastGood.current = list.data;
  const data = problem ? lastGood.current : list.data;
  const listed = data?.pages.flatMap(({ results }) => results) ?? [];
  const activity = useQuery(runActivityQuery(unknownIds(listed, live)));
  // Ended runs rarely change.
  const resting = useQuery({ ...runActivityQuery(restingIds(listed, live)), staleTime: SLOW_MS, refetchInterval: SLOW_MS });
  const [selected, setSelected] = useState<ReadonlySet<number>>(new Set());
  const [chosen, setChosen] = useState<{ action: Action; which: Which; runs: number } | null>(null);
  const hasFailed = (list.isError && !problem) || activity.isError;
  const shown = shownRuns(listed, live, { ...resting.data, ...activity.data }, hasFailed);
  const total = data?.pages[0]?.total ?? 0;

  const look = (changes: Partial<RunsSearch>) => {
    if ("q" in changes) setSelected(new Set());
    const next = { ...shownLook, ...changes };
    const search = {
      q: next.q || undefined,
      sort: next.sort === NEWEST ? undefined : next.sort,
      cols: next.cols,
      group: next.group,
    };
    onLook(search, "q" in changes);
  };
  const select = (ids: number[], isOn: boolean) =>
    setSelected((before) => {
      const after = new Set(before);
      for (const id of ids) isOn ? after.add(id) : after.delete(id);
      return after;
    });
  const isBare = list.isSuccess && total === 0 && q === "";
  const ids = shown.filter(({ id }) => selected.has(id)).map(({ id }) => id);
  const chosenRows = chosen && "ids" in chosen.which ? shown.filter(({ id }) => selected.has(id)) : shown;
  return (
    <>
      <Group mb="1.25rem">
        {heading}
        <FilterBox
          language={{ qualifiers, valuesOf: VALUES_OF, values: valuesQuery }}
          label="Filter runs by name, state or environment"
          placeholder="state:running env:… step>100 tag:… created<7d"
          value={q}
          onChange={(text) => look({ q: text })}
          problem={problem}
        />
        <Space flex={1} />
        {!isBare && aside}
      </Group>
      {list.isPending && <Skeletons heights={[320]} />}
      {list.isError && !problem && (
        <Box mb="sm">
          <ErrorState title="Runs unavailable" error={list.error} onRetry={() => void list.refetch()} />
        </Box>
      )}
      {problem && !data && (
        <EmptyState
          title="The address of this list is invalid"
          action={
            <Button size="compact-sm" variant="default" onClick={() => onLook({}, false)}>
              Show all runs with the usual columns
            </Button>
          }
        >
          The error above names the part.
        </EmptyState>
      )}
      {isBare && <Paper>{empty}</Paper>}
      {!isBare && data && (
        <Paper component="section" aria-label="List of runs">
          <div className={css.bar}>
            {ids.length > 0 ? (
              <>
                {mayOperate ? (
                  <Actions label={`${ids.length} selected`} onPick={(action) => setChosen({ action, which: { ids }, runs: ids.length })} />
                ) : (
                  <span className="soft small" role="status">
                    {ids.length} selected
                  </span>
                )}
                <CompareButton runs={shown.filter(({ id, archived_at }) => selected.has(id) && !archived_at).map(({ name }) => name)} />
              </>
            ) : (
              <span className="soft small" role="status">
                {total > COUNTED_AT_MOST ? "More than 10,000 runs" : counted(total, "run")}
                {problem ? " match the last valid filter" : q ? " match" : ""}
                {group && ` · groups and their means ± standard deviations are of the ${counted(shown.length, "loaded run")}`}
              </span>
            )}
            {mayOperate && ids.length === 0 && total > 0 && !problem && (
              <Actions label="All matching" onPick={(action) => setChosen({ action, which: { q }, runs: total })} />
            )}
            <Space flex={1} />
            {!problem && (
              <Button
                component="a"
                size="compact-sm"
                variant="default"
                href={`/api/v1/runs.csv?${new URLSearchParams({ q, sort })}`}
                download
              >
                CSV
              </Button>
            )}
            <GroupBy q={q} group={group} onGroup={(next) => look({ group: next })} />
            <Columns q={q} cols={cols} onCols={(next) => look({ cols: next })} />
          </div>
          {shown.length === 0 ? (
            <EmptyState title="No matching runs" action={<Link to="/runs">All runs</Link>}>
              Remove a term from the filter.
            </EmptyState>
          ) : (
            <Boundary part="Table">
              <RunsTable
                runs={shown}
                columns={columns}
                sort={sort}
                onSort={(next) => look({ sort: next })}
                selected={selected}
                onSelect={select}
                group={group}
              />
            </Boundary>
          )}
          {!problem && <ShowMore pages={list} />}
        </Paper>
      )}
      {chosen && <BulkDialog {...chosen} rows={chosenRows} filter={q} onClose={() => setChosen(null)} />}
    </>
  );
}

type ColumnsProps = { q: string; cols: string | undefined; onCols: (cols: string | undefined) => void };

/** Choose columns: the built-in ones, and every configuration value and metric of the runs of a filter. */
function Columns({ q, cols, onCols }: ColumnsProps) {
  const [isOpened, setOpened] = useState(false);
  return (
    <MenuButton
      menu={ColumnsMenu}
      target={COLUMNS_BUTTON}
      builtIn={COLUMNS}
      named={useQuery(columnsQuery(q, isOpened)).data}
      chosen={columnsOf(cols).map(({ id }) => id)}
      atMost={NAMED_AT_MOST - 1}
      sources="Configuration or metric"
      onOpen={setOpened}
      onChoose={(ids) => onCols(wordOf(ids))}
    />
  );
}

type GroupProps = { q: string; group: RunsSearch["group"]; onGroup: (group: RunsSearch["group"]) => void };

/** Choose what the list is grouped by. */
function GroupBy({ q, group, onGroup }: GroupProps) {
  const [isOpened, setOpened] = useState(false);
  return (
    <MenuButton
      menu={ColumnsMenu}
      label="Group by"
      target={
        <Button size="compact-sm" variant={group ? "light" : "default"} aria-haspopup="dialog">
          {group ? `Group by ${visible(group)}` : "Group by"}
        </Button>
      }
      builtIn={GROUPS}
      named={useQuery(columnsQuery(q, isOpened)).data?.filter((id) => id.startsWith("config."))}
      chosen={group ? [group] : []}
      atMost={NAMED_AT_MOST}
      sources="Configuration"
      onOpen={setOpened}
      onChoose={(ids) => onGroup(ids.at(-1) as RunsSearch["group"])}
    />
  );
}

/** Compare the selected runs, from two up to the limit. */
function CompareButton({ runs }: { runs: string[] }) {
  const isFit = runs.length >= 2 && runs.length <= RUNS_AT_MOST;
  return (
    <Hint label={isFit ? "Shared charts and configuration differences." : `Select 2 to ${RUNS_AT_MOST} runs to compare.`}>
      {isFit ? (
        <Button
          size="compact-sm"
          variant="default"
          renderRoot={(props) => <Link to="/compare" search={{ runs: runs.join(",") }} {...props} />}
        >
          Compare
        </Button>
      ) : (
        <Button size="compact-sm" variant="default" data-disabled aria-disabled onClick={(event) => event.preventDefault()}>
          Compare
        </Button>
      )}
    </Hint>
  );
}

function Actions({ label, onPick }: { label: string; onPick: (action: Action) => void }) {
  const silence = useOutage();
  return (
    <MenuButton
      menu={BulkMenu}
      onPick={onPick}
      target={
        <Button
          size="compact-sm"
          variant="default"
          disabled={silence !== null}
          title={silence ? `No server for ${silence}: nothing can be changed.` : undefined}
        >
          {label} ▾
        </Button>
      }
    />
  );
}
