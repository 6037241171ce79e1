import { Button, Group, Paper, SegmentedControl, Select, Space, Stack } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQueries, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useMemo, useRef, useState } from "react";
import { ApiProblem } from "@/api/client";
import { mayMeasure, metricNamesQuery } from "@/api/metrics";
import { matchingRunsQuery, runQuery } from "@/api/runs";
import { namesOf, switched, wordOf } from "@/charts/names";
import { LossOfRuns } from "@/components/DataLoss";
import { EmptyState, Guarded, PageTitle, Skeletons } from "@/components/panels";
import { visible } from "@/format";
import { useLiveRuns } from "@/live/live";
import { type RunKind, returnsFirst, titleOf } from "@/runs/metricOrder";
import type { ShareSearch } from "@/share/share";
import { AxisControls, Controls, PanelPicker, RunLegend } from "@/wall/Controls";
import { type PanelSpec, panelOf } from "@/wall/panels";
import { useView } from "@/wall/useView";
import { amountOf, useWallView } from "@/wall/useWallView";
import { Views } from "@/wall/Views";
import { RUNS_AT_MOST, runsOf, type View } from "@/wall/view";
import { Wall } from "@/wall/Wall";
import { type ComparedRun, CompareTable } from "./CompareTable";
import css from "./compare.module.css";
import { defaultMetrics, groupingsOf, groupsOf, returnMetricOf, unionOf } from "./comparing";

const route = getRouteApi("/shell/compare");
const METRICS_AT_FIRST = 6;
const FEW_RUNS = 8;
const [POINTS, POINTS_OF_MANY] = [600, 300];
const HEIGHT = 260;
const TYPING_MS = 200;
const AXES = ["step", "elapsed", "time", "amount"] as const;
const SPREADS = [
  { value: "deviation", label: "Mean ± SD" },
  { value: "range", label: "Mean, min – max" },
];

type Search = View & ShareSearch;

/** The selected runs, kept up to date by the live list. */
function useComparedRuns(names: string[]): ComparedRun[] {
  const live = useLiveRuns();
  const found = useQueries({ queries: names.map((name) => runQuery(name)) });
  return names.map((name, i) => {
    const { data, error } = found[i] ?? {};
    const now = live.find(({ id }) => id === data?.id);
    const run = data && now ? { ...data, ...now, config: data.config } : data;
    return { name, run, observedAt: now?.observed_at, fleetReason: now?.fleet_reason, problem: error?.message, isPending: !data && !error };
  });
}

/** The metrics of the runs, and those shown by default. */
function useMetrics(runs: string[], kinds: RunKind[]) {
  const all = useQueries({ queries: runs.map((run) => metricNamesQuery(run)) });
  const isPending = all.some((one) => one.isPending);
  const union = returnsFirst(kinds, unionOf(runs.map((run, i) => ({ run, names: all[i]?.data ?? [] }))), ({ name }) => name);
  // Existing charts stay while the names of an added run load.
  const usual = useRef<{ names: string[]; returnName?: string }>({ names: [] });
  if (!isPending) usual.current = { names: defaultMetrics(kinds, union, METRICS_AT_FIRST), returnName: returnMetricOf(kinds, union) };
  return { union, ...usual.current, isPending };
}

/** The panel of a text; the first one takes the whole width. */
function specOf(text: string, kinds: readonly RunKind[], isFirst: boolean): PanelSpec {
  const title = titleOf(kinds, text);
  const spec = {
    ...panelOf(text),
    height: HEIGHT,
    ...(isFirst && { columns: 12 as const }),
    empty: "None of these runs has such samples.",
  };
  return title === undefined ? spec : { ...spec, title, note: visible(text) };
}

/** Search for a run by name or filter, and add it to the comparison. */
function RunPicker({ chosen, onAdd }: { chosen: string[]; onAdd: (run: string) => void }) {
  const [typed, setTyped] = useState("");
  const [asked] = useDebouncedValue(typed.trim(), TYPING_MS);
  const found = useQuery(matchingRunsQuery(asked));
  const problem = found.error instanceof ApiProblem ? (found.error.fields[0]?.message ?? found.error.message) : undefined;
  const states = new Map(
    (found.data ?? []).flatMap((run) => (run.archived_at || chosen.includes(run.name) ? [] : [[run.name, run.status]])),
  );
  const isFull = chosen.length >= RUNS_AT_MOST;
  return (
    <Select
      flex="0 1 24rem"
      miw={0}
      size="xs"
      aria-label="Add a run"
      data-filter
      placeholder={isFull ? `At most ${RUNS_AT_MOST} runs` : "Add a run: name, tag:…, state:running …"}
      leftSection={<Plus size={14} aria-hidden="true" />}
      disabled={isFull}
      searchable
      value={null}
      searchValue={typed}
      onSearchChange={setTyped}
      data={[...states.keys()]}
      // Filtered by the server already, on more than names.
      filter={({ options }) => options}
      renderOption={({ option }) => (
        <Group justify="space-between" flex={1} wrap="nowrap">
          <span className="anywhere">{option.value}</span>
          <span className="faint tiny">{states.get(option.value)}</span>
        </Group>
      )}
      nothingFoundMessage={found.isPending ? "Searching…" : "No other matching runs."}
      maxDropdownHeight={320}
      error={problem && visible(problem)}
      onChange={(name) => {
        if (name) onAdd(name);
        setTyped("");
      }}
    />
  );
}

type Props = { chosen: ComparedRun[]; search: Search; navigate: unknown };

function Comparison({ chosen, search, navigate }: Props) {
  const there = chosen.flatMap(({ run }) => run ?? []);
  const runs = there.map(({ name }) => name);
  const kinds = [...new Set(there.map(({ kind }) => kind))];
  const metrics = useMetrics(runs, kinds);
  const page = `compare-${kinds.length === 1 ? kinds[0] : "mixed"}`;
  const { change, apply, reset, isPending } = useView({ search, navigate, page });
  const hidden = namesOf(search.hide);
  const seen = there.filter(({ name }) => !hidden.includes(name));
  const view = useWallView({
    runs,
    kinds,
    places: new Map(chosen.map(({ name }, i) => [name, i])),
    view: search,
    usual: "step",
    sync: "compare",
    change: apply,
    points: runs.length > FEW_RUNS ? POINTS_OF_MANY : POINTS,
    groups: search.by ? groupsOf(seen, search.by) : null,
    isLive: there.some(({ status }) => mayMeasure(status)),
  });
  const shown = search.charts ?? metrics.names;
  const owners = new Map(metrics.union.map((one) => [one.name, one.runs.length]));
  const words = JSON.stringify([shown, kinds]);
  const panels = useMemo(() => shown.map((text, i) => specOf(text, kinds, i === 0)), [words]);
  const offered = groupingsOf(there);
  const isOffered = search.by === undefined || offered.some(({ value }) => value === search.by);
  const groupings = isOffered ? offered : [...offered, { value: search.by ?? "", label: visible(search.by ?? "") }];
  if (isPending || (shown.length === 0 && metrics.isPending)) return <Skeletons heights={[54, 350, 350]} />;
  return (
    <>
      <Controls aside={<Views search={search} apply={apply} />}>
        <PanelPicker
          names={metrics.union.map(({ name }) => name)}
          chosen={shown}
          onChange={(charts) => change({ charts })}
          noteOf={(name) => `${owners.get(name)} of ${runs.length} runs`}
        />
        <Select
          size="xs"
          label="Group by"
          placeholder="no groups"
          clearable
          searchable
          data={groupings}
          value={search.by ?? null}
          onChange={(by) => change({ by: by ?? undefined })}
        />
        {search.by && (
          <SegmentedControl
            size="xs"
            data={SPREADS}
            value={search.spread ?? "deviation"}
            aria-label="Spread of groups"
            onChange={(spread) => change({ spread: spread === "range" ? "range" : undefined })}
          />
        )}
        <AxisControls
          view={search}
          axis={view.axis}
          usual="step"
          axes={AXES}
          change={change}
          onReset={reset}
          amount={amountOf(kinds).title}
        />
      </Controls>
      <Guarded>
        {panels.length === 0 && runs.length > 0 && (
          <Paper>
            <EmptyState title="No metrics yet" command={`trainer.log_metrics({"loss": 0.5}, step=1)`}>
              None of these runs has recorded a metric. Trainers log metrics by step.
            </EmptyState>
          </Paper>
        )}
        <Wall panels={panels} view={view} />
        <CompareTable
          chosen={chosen}
          kinds={kinds}
          metrics={shown.filter((text) => panelOf(text).source.kind === "metric")}
          returnName={metrics.returnName}
          view={view}
          rows={search.config ?? "differing"}
          onRows={(rows) => change({ config: rows === "all" ? "all" : undefined })}
        />
      </Guarded>
    </>
  );
}

/** The wall of up to twenty runs, and a table of their results and configurations. */
export function ComparePage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const names = runsOf(search);
  const chosen = useComparedRuns(names);
  // Wait for all runs at first, so that lines are requested once rather than per run.
  const isReady = useRef(false);
  isReady.current ||= chosen.length > 0 && chosen.every(({ isPending }) => !isPending);
  const change = (more: View) => void navigate({ search: (old) => ({ ...old, ...more }), replace: !("runs" in more), resetScroll: false });
  return (
    <>
      <nav aria-label="Breadcrumbs" className="small faint">
        <Link to="/runs">Runs</Link> <span aria-hidden="true">/</span> <span aria-current="page">Compare</span>
      </nav>
      <PageTitle title="Compare" wrap="nowrap" style={{ whiteSpace: "nowrap" }}>
        <RunPicker chosen={names} onAdd={(run) => change({ runs: wordOf([...names, run]) })} />
        <Space flex={1} />
        {names.length > 0 && (
          <Link to="/trajectories" search={{ q: `run:${names.join(",")}` }} className="small">
            Samples
          </Link>
        )}
      </PageTitle>
      {names.length > 0 && <LossOfRuns runs={names} />}
      {names.length === 0 ? (
        <Paper>
          <EmptyState
            title="No runs selected"
            action={
              <Button component={Link} to="/runs" variant="default">
                Choose from the list
              </Button>
            }
          >
            Compare up to {RUNS_AT_MOST} runs: their curves in shared charts, their results and their configurations. Add runs above, or
            select them in the list of runs.
          </EmptyState>
        </Paper>
      ) : (
        <Stack component="section" gap="sm" aria-label="Comparison">
          <div className={css.runs}>
            <RunLegend
              runs={chosen}
              hidden={{ value: namesOf(search.hide), change: (hide) => change({ hide: wordOf(hide) }) }}
              onRemove={(run) => change({ runs: wordOf(names.filter((name) => name !== run)), hide: switched(search.hide, run, false) })}
            />
            {namesOf(search.runs).length > RUNS_AT_MOST && (
              <p className="small held">▲ Only the first {RUNS_AT_MOST} of these runs are compared.</p>
            )}
          </div>
          {isReady.current ? <Comparison chosen={chosen} search={search} navigate={navigate} /> : <Skeletons heights={[54, 350, 350]} />}
        </Stack>
      )}
    </>
  );
}
