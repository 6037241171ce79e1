import { Button, SegmentedControl, Select } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQueries } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { metricNamesQuery } from "@/api/compare";
import type { Span } from "@/api/metrics";
import type { MetricAxis } from "@/api/types";
import type { Controlled } from "@/charts/controllableState";
import { namesOf, switched, wordOf } from "@/charts/names";
import { Smoothing } from "@/charts/Smoothing";
import { Copy } from "@/components/Copying";
import { EmptyState } from "@/components/EmptyState";
import { Guarded } from "@/components/Panels";
import { Skeletons } from "@/components/Skeletons";
import { visible } from "@/format";
import { returnsFirst } from "@/pages/run/metricOrder";
import { useRememberedChoice } from "@/pages/run/useRememberedChoice";
import { RUNS_AT_MOST } from "@/runs/search";
import { ConfigDiff } from "./ConfigDiff";
import { choiceOf, isChosen, isDefault, kindOf, recalled } from "./choice";
import css from "./compare.module.css";
import { defaultMetrics, unionOf } from "./comparing";
import { type ComparisonView, viewOf } from "./comparisonView";
import { groupingsOf } from "./grouping";
import { MetricPicker } from "./MetricPicker";
import { Overlay } from "./Overlay";
import { Prompts } from "./Prompts";
import { RunChips } from "./RunChips";
import { RunPicker } from "./RunPicker";
import { returnMetricOf } from "./returns";
import { Summary } from "./Summary";
import { type CompareSearch, runsOf } from "./search";
import { type ComparedRun, useComparedRuns } from "./useComparedRuns";

const route = getRouteApi("/shell/compare");
const METRICS_AT_FIRST = 6;
const TYPING_MS = 250;
const AXES = [
  { value: "step", label: "Train steps" },
  { value: "elapsed", label: "Since start" },
  { value: "time", label: "Time" },
  { value: "amount", label: "Data served" },
];
const SPREADS = [
  { value: "deviation", label: "Mean ± SD" },
  { value: "range", label: "Mean, min – max" },
];
const WHOLE = { from: undefined, to: undefined };

type Change = (more: Partial<CompareSearch>) => void;

/** The shown metrics, chosen from those of all runs. */
function useMetrics({ runs, kinds }: ComparisonView, search: CompareSearch) {
  const [typed, setTyped] = useState("");
  const [asked] = useDebouncedValue(typed.trim(), TYPING_MS);
  const all = useQueries({ queries: runs.map((run) => metricNamesQuery(run, "")) });
  const areMore = all.some(({ data }) => data !== undefined && data.total > data.names.length);
  // The server is asked for name fragments only where a run has more names than were loaded.
  const narrowed = useQueries({ queries: runs.map((run) => ({ ...metricNamesQuery(run, asked), enabled: areMore && asked !== "" })) });
  const found = areMore && asked ? narrowed : all;
  const union = returnsFirst(kinds, unionOf(found.flatMap(({ data }) => data ?? [])), ({ name }) => name);
  const isPending = all.some((one) => one.isPending);
  // Existing charts stay while the names of an added run load.
  const usual = useRef<{ names: string[]; returnName?: string }>({ names: [] });
  if (!isPending) {
    const every = unionOf(all.flatMap(({ data }) => data ?? []));
    usual.current = { names: defaultMetrics(kinds, every, METRICS_AT_FIRST), returnName: returnMetricOf(kinds, every) };
  }
  const shown = search.m === undefined ? usual.current.names : namesOf(search.m);
  return { union, shown, returnName: usual.current.returnName, areMore, typed, setTyped, isPending };
}

type Props = {
  chosen: ComparedRun[];
  view: ComparisonView;
  search: CompareSearch;
  hidden: Controlled<readonly string[]>;
  change: Change;
};

/** Changes of the address by the user, remembered as their choice; the choice is recalled in an address without one. */
function useChoice({ kinds }: ComparisonView, search: CompareSearch, metrics: ReturnType<typeof useMetrics>, change: Change) {
  const remembered = useRememberedChoice("compare", kindOf(kinds));
  const known = metrics.areMore ? null : new Set(metrics.union.map(({ name }) => name));
  const recall = metrics.isPending ? null : recalled(search, remembered.choice, known);
  useEffect(() => {
    if (recall) change(recall);
  }, [recall !== null]);
  const choose: Change = (more) => {
    if (isChosen(more)) remembered.remember(choiceOf({ ...search, ...more }));
    change(more);
  };
  const reset = () => {
    remembered.forget();
    change({ m: undefined, log: undefined, x: undefined, smooth: undefined, ...WHOLE });
  };
  return { choose, reset, isPending: recall !== null };
}

function Comparison({ chosen, view, search, hidden, change }: Props) {
  const metrics = useMetrics(view, search);
  const { choose, reset, isPending } = useChoice(view, search, metrics, change);
  const offered = groupingsOf(chosen.flatMap(({ run }) => run ?? []));
  const isOffered = search.by === undefined || offered.some(({ value }) => value === search.by);
  const groupings = isOffered ? offered : [...offered, { value: search.by ?? "", label: visible(search.by ?? "") }];
  const isWaiting = isPending || (metrics.shown.length === 0 && metrics.isPending);
  const onZoom = (span: Span | null) => change({ from: span?.from, to: span?.to });
  const overlay = (metric: string) => (
    <Overlay
      key={metric}
      metric={metric}
      view={view}
      hidden={hidden}
      onZoom={onZoom}
      isLog={{ value: namesOf(search.log).includes(metric), change: (isOn) => choose({ log: switched(search.log, metric, isOn) }) }}
    />
  );
  const [first, ...others] = metrics.shown;
  return (
    <>
      <div className={css.bar}>
        <MetricPicker
          union={metrics.union}
          runs={view.runs.length}
          chosen={metrics.shown}
          areMore={metrics.areMore}
          typed={metrics.typed}
          onType={metrics.setTyped}
          onChange={(names) => choose({ m: wordOf(names) })}
        />
        <Smoothing value={search.smooth ?? 0} onChange={(smooth) => choose({ smooth: smooth || undefined })} />
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
            value={view.spread}
            aria-label="Spread of groups"
            onChange={(spread) => change({ spread: spread === "range" ? "range" : undefined })}
          />
        )}
        <SegmentedControl
          size="xs"
          data={AXES}
          value={view.axis}
          aria-label="Horizontal axis"
          onChange={(x) => choose({ x: x === "step" ? undefined : (x as MetricAxis), ...WHOLE })}
        />
        {!isDefault(search) && (
          <Button size="xs" variant="default" onClick={reset} title="Show the default metrics, and forget this choice">
            Reset to defaults
          </Button>
        )}
        {view.span && (
          <Button size="xs" variant="default" onClick={() => change(WHOLE)}>
            Reset zoom
          </Button>
        )}
      </div>
      {isWaiting ? <Skeletons heights={[350, 200, 350]} /> : null}
      {!isWaiting && (
        <Guarded>
          {first === undefined && view.runs.length > 0 && (
            <div className="panel">
              <EmptyState title="No metrics yet" command={`trainer.log_metrics({"loss": 0.5}, step=1)`}>
                None of these runs has recorded a metric. Trainers log metrics by step.
              </EmptyState>
            </div>
          )}
          {first !== undefined && overlay(first)}
          <Summary chosen={chosen} metrics={metrics.shown} returnName={metrics.returnName} view={view} />
          <div className={css.overlays}>
            <Guarded>{others.map(overlay)}</Guarded>
          </div>
          <Prompts runs={view.runs} places={view.places} chosen={search.prompt} onChoose={(prompt) => change({ prompt })} />
          <ConfigDiff
            chosen={chosen}
            places={view.places}
            view={search.config ?? "differing"}
            onView={(view) => change({ config: view === "all" ? "all" : undefined })}
          />
        </Guarded>
      )}
    </>
  );
}

/** Comparison of up to twenty runs: curves, summaries and configurations. */
export function ComparePage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const names = runsOf(search);
  const chosen = useComparedRuns(names);
  // Wait for all runs at first, so that lines are requested once rather than per run.
  const isReady = useRef(false);
  isReady.current ||= chosen.length > 0 && chosen.every(({ isPending }) => !isPending);
  const change: Change = (more) =>
    void navigate({ search: (old) => ({ ...old, ...more }), replace: !("from" in more || "runs" in more), resetScroll: false });
  const hidden: Controlled<readonly string[]> = { value: namesOf(search.hide), change: (hide) => change({ hide: wordOf(hide) }) };
  return (
    <>
      <nav aria-label="Breadcrumbs" className="crumbs">
        <Link to="/runs">Runs</Link> <span aria-hidden="true">/</span> <span aria-current="page">Compare</span>
      </nav>
      <div className="page-title">
        <h1>Compare</h1>
        <RunPicker chosen={names} onAdd={(run) => change({ runs: wordOf([...names, run]) })} />
        <span className="spacer" />
        {names.length > 0 && <Copy text={location.href} words="Copy link" size="compact-sm" />}
      </div>
      {names.length === 0 ? (
        <div className="panel">
          <EmptyState
            title="No runs selected"
            command={`${location.origin}/compare?runs=run-a,run-b`}
            action={
              <Button component={Link} to="/runs" variant="default">
                Choose from the list
              </Button>
            }
          >
            Compare up to {RUNS_AT_MOST} runs: their curves in shared charts, their summaries, and the differences of their configurations.
            Add runs above, or select them in the list of runs.
          </EmptyState>
        </div>
      ) : (
        <section aria-label="Comparison" className={css.page}>
          <div className={css.runs}>
            <RunChips
              chosen={chosen}
              hidden={hidden}
              onTakeOut={(run) => change({ runs: wordOf(names.filter((name) => name !== run)), hide: switched(search.hide, run, false) })}
            />
            {namesOf(search.runs).length > RUNS_AT_MOST && (
              <p className="small held">▲ Only the first {RUNS_AT_MOST} of these runs are compared.</p>
            )}
          </div>
          {isReady.current ? (
            <Comparison chosen={chosen} view={viewOf(chosen, search)} search={search} hidden={hidden} change={change} />
          ) : (
            <Skeletons heights={[54, 350, 350]} />
          )}
        </section>
      )}
    </>
  );
}
