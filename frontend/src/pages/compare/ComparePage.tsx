import { Button, SegmentedControl, Select } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useRef } from "react";
import { mayMeasure, metricNamesQuery } from "@/api/metrics";
import { namesOf, switched, wordOf } from "@/charts/names";
import { Copy } from "@/components/Copying";
import { LossOfRuns } from "@/components/DataLoss";
import { EmptyState } from "@/components/EmptyState";
import { Guarded } from "@/components/Panels";
import { Skeletons } from "@/components/Skeletons";
import { visible } from "@/format";
import { type RunKind, returnsFirst, titleOf } from "@/runs/metricOrder";
import type { ShareSearch } from "@/share/share";
import { amountOf } from "@/wall/axes";
import { AxisControls, NewPanel } from "@/wall/Controls";
import { type PanelSpec, panelOf } from "@/wall/panels";
import { useView } from "@/wall/useView";
import { useWallView } from "@/wall/useWallView";
import { Views } from "@/wall/Views";
import { RUNS_AT_MOST, runsOf, type View } from "@/wall/view";
import { Wall } from "@/wall/Wall";
import wallCss from "@/wall/wall.module.css";
import { ConfigDiff } from "./ConfigDiff";
import css from "./compare.module.css";
import { defaultMetrics, unionOf } from "./comparing";
import { groupingsOf, groupsOf } from "./grouping";
import { MetricPicker } from "./MetricPicker";
import { Prompts } from "./Prompts";
import { RunChips } from "./RunChips";
import { RunPicker } from "./RunPicker";
import { returnMetricOf } from "./returns";
import { Summary } from "./Summary";
import { type ComparedRun, useComparedRuns } from "./useComparedRuns";

const route = getRouteApi("/shell/compare");
const METRICS_AT_FIRST = 6;
const FEW_RUNS = 8;
const [POINTS, POINTS_OF_MANY] = [600, 300];
const HEIGHT = 260;
const AXES = ["step", "elapsed", "time", "amount"] as const;
const SPREADS = [
  { value: "deviation", label: "Mean ± SD" },
  { value: "range", label: "Mean, min – max" },
];

type Search = View & ShareSearch;

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
  const spec = { ...panelOf(text), height: HEIGHT, className: isFirst ? wallCss.wide : "", empty: "None of these runs has such samples." };
  return title === undefined ? spec : { ...spec, title, note: visible(text) };
}

type Props = { chosen: ComparedRun[]; search: Search; navigate: unknown };

function Comparison({ chosen, search, navigate }: Props) {
  const there = chosen.flatMap(({ run }) => run ?? []);
  const runs = there.map(({ name }) => name);
  const kinds = [...new Set(there.map(({ kind }) => kind))];
  const metrics = useMetrics(runs, kinds);
  const known = metrics.isPending ? undefined : new Set(metrics.union.map(({ name }) => name));
  const page = `compare-${kinds.length === 1 ? kinds[0] : "mixed"}`;
  const { change, apply, reset, isPending } = useView({ search, navigate, page, known });
  const hidden = namesOf(search.hide);
  const places = new Map(chosen.map(({ name }, i) => [name, i]));
  const view = useWallView({
    ...{ runs, kinds, places, view: search, usual: "step", sync: "compare", change: apply },
    points: runs.length > FEW_RUNS ? POINTS_OF_MANY : POINTS,
    groups: search.by
      ? groupsOf(
          there.filter(({ name }) => !hidden.includes(name)),
          search.by,
        )
      : null,
    isLive: there.some(({ status }) => mayMeasure(status)),
  });
  const shown = search.charts ?? metrics.names;
  const words = JSON.stringify([shown, kinds]);
  const panels = useMemo(() => shown.map((text, i) => specOf(text, kinds, i === 0)), [words]);
  const offered = groupingsOf(there);
  const isOffered = search.by === undefined || offered.some(({ value }) => value === search.by);
  const groupings = isOffered ? offered : [...offered, { value: search.by ?? "", label: visible(search.by ?? "") }];
  const isWaiting = isPending || (shown.length === 0 && metrics.isPending);
  return (
    <>
      <div className={wallCss.controls}>
        <MetricPicker
          union={metrics.union}
          runs={runs.length}
          chosen={[...shown]}
          onChange={(names) => change({ charts: names.length > 0 ? names : undefined })}
        />
        <NewPanel charts={shown} onAdd={(text) => change({ charts: [...new Set([...shown, text])] })} />
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
          {...{ view: search, axis: view.axis, usual: "step", axes: AXES, change, onReset: reset }}
          amount={amountOf(kinds).title}
        />
        <Views search={search} apply={apply} />
      </div>
      {isWaiting ? <Skeletons heights={[350, 200, 350]} /> : null}
      {!isWaiting && (
        <Guarded>
          {panels.length === 0 && runs.length > 0 && (
            <div className="panel">
              <EmptyState title="No metrics yet" command={`trainer.log_metrics({"loss": 0.5}, step=1)`}>
                None of these runs has recorded a metric. Trainers log metrics by step.
              </EmptyState>
            </div>
          )}
          <Wall panels={panels} view={view} className={css.panels}>
            <div className={wallCss.wide}>
              <Summary
                chosen={chosen}
                kinds={kinds}
                metrics={shown.filter((text) => panelOf(text).source.kind === "metric")}
                returnName={metrics.returnName}
                view={view}
              />
            </div>
          </Wall>
          <Prompts runs={runs} places={places} chosen={search.prompt} onChoose={(prompt) => change({ prompt })} />
          <ConfigDiff
            chosen={chosen}
            places={places}
            view={search.config ?? "differing"}
            onView={(rows) => change({ config: rows === "all" ? "all" : undefined })}
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
  const change = (more: View) => void navigate({ search: (old) => ({ ...old, ...more }), replace: !("runs" in more), resetScroll: false });
  const hidden = { value: namesOf(search.hide), change: (hide: readonly string[]) => change({ hide: wordOf(hide) }) };
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
      {names.length > 0 && <LossOfRuns runs={names} />}
      {names.length === 0 ? (
        <div className="panel">
          <EmptyState
            title="No runs selected"
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
          {isReady.current ? <Comparison chosen={chosen} search={search} navigate={navigate} /> : <Skeletons heights={[54, 350, 350]} />}
        </section>
      )}
    </>
  );
}
