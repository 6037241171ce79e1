import { useCallbackRef } from "@mantine/hooks";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState } from "react";
import { type MetricKey, mayMeasure, metricKeysQuery, metricNamesOfQuery, namedKeysQuery, REFRESH_MS, type Span } from "@/api/metrics";
import type { RunDetail } from "@/api/types";
import { namesOf, switched } from "@/charts/names";
import { spanOf } from "@/charts/spans";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { onDemand } from "@/components/onDemand";
import { Guarded } from "@/components/Panels";
import { ShowMore } from "@/components/ShowMore";
import { Skeletons } from "@/components/Skeletons";
import { number, visible } from "@/format";
import { usePartChangeFeed } from "@/live/changeFeed";
import type { RuleStart } from "@/pages/alerts/rules/drafts";
import { annotationsQuery } from "@/pages/run/annotations";
import { leadsOf, returnsFirst, titleOf } from "@/pages/run/metricOrder";
import { useRun } from "@/pages/run/RunContext";
import { useMarks } from "@/pages/run/useMarks";
import { useRememberedChoice } from "@/pages/run/useRememberedChoice";
import { chartOf, shareSearch } from "@/share/share";
import { Bar } from "./Bar";
import { choiceOf, isChosen, isDefault, recalled } from "./choice";
import { ExpressionPanel } from "./ExpressionPanel";
import { searchOf } from "./layoutSearch";
import { type Look, MetricCard } from "./MetricCard";
import { MetricTree } from "./MetricTree";
import classes from "./metrics.module.css";
import { RegexPanel } from "./RegexPanel";
import { type MetricsSearch, type Picked, pickedOf, pinnedFirst, runsOf, UNPICKED } from "./search";

const RuleDialog = onDemand(() => import("@/pages/alerts/rules/RuleDialog"), "default");
const MarksDrawer = onDemand(() => import("./MarksDrawer"), "default");
const PointDrawer = onDemand(() => import("./PointDrawer"), "default");

const route = getRouteApi("/shell/runs/$name/metrics");
type Change = (more: Partial<MetricsSearch>) => void;

/** The address, and its changes: those by the user are remembered as their choice for runs of this kind. */
function useChosenSearch(run: RunDetail) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const remembered = useRememberedChoice("metrics", run.kind);
  const apply: Change = (more) => void navigate({ search: (old) => ({ ...old, ...more }), replace: !("from" in more) });
  const change: Change = (more) => {
    if (isChosen(more)) remembered.remember(choiceOf({ ...search, ...more }));
    apply(more);
  };
  const recall = recalled(search, remembered.choice);
  useEffect(() => {
    if (recall) apply(recall);
  }, [recall !== null]);
  const reset = () => {
    remembered.forget();
    apply({ ...searchOf({}), layout: undefined });
  };
  return { search, apply, change, reset, isPending: recall !== null };
}

/** The metrics in display order: pinned ones, the return and evaluations, then the found ones. */
function useOrdered(run: RunDetail, search: MetricsSearch, found: readonly MetricKey[]) {
  const pins = namesOf(search.pin);
  const names = useQuery(metricNamesOfQuery(run.name));
  const isFiltered = Boolean(search.q || search.under);
  const leads = isFiltered ? [] : leadsOf([run.kind], names.data ?? []);
  const first = [...new Set([...pins, ...leads])];
  // A linked chart may be on a later page of the list.
  const linked = chartOf(shareSearch(search).focus);
  const named = linked === null ? first : [...new Set([...first, linked])];
  const keys = useQuery(namedKeysQuery(run.name, named));
  // Later, for example for a new pin, the charts stay.
  const isReady = useRef(false);
  isReady.current ||= !names.isPending && !keys.isLoading && !keys.isPlaceholderData;
  const rest = returnsFirst([run.kind], found, ({ name }) => name);
  return {
    metrics: pinnedFirst(first, [...rest, ...(keys.data ?? []).filter(({ name }) => named.includes(name))]),
    // Otherwise the first charts would move those below them.
    isPending: !isReady.current,
  };
}

/** All metrics of a run, one chart per name, the return first, with more detail when zoomed. */
export function MetricsTab() {
  const { run } = useRun();
  const { search, apply, change, reset, isPending } = useChosenSearch(run);
  const [ruled, setRuled] = useState<RuleStart | null>(null);
  const [isListing, setListing] = useState(false);
  // Values beside the names and lines change together.
  const refetchInterval = usePartChangeFeed(
    `run:${run.name}`,
    "metrics",
    REFRESH_MS,
    ["metric-keys", run.name],
    ["metric-keys-named", run.name],
    ["metric-names-of", run.name],
    ["metric-lines"],
  );
  const keys = useInfiniteQuery({ ...metricKeysQuery(run.name, search.q ?? "", search.under ?? ""), refetchInterval });
  const picked = pickedOf(search);
  // Callbacks and the look keep their identity, so that new values of metrics do not render every chart.
  const onPick = useCallbackRef(({ metric, from, to }: Picked) => change({ pick: metric, at: to, since: from < to ? from : undefined }));
  const onZoom = useCallbackRef((span: Span | null) => change({ from: span?.from, to: span?.to }));
  const onLog = useCallbackRef((metric: string, isOn: boolean) => change({ log: switched(search.log, metric, isOn) }));
  const axis = search.x ?? "step";
  const amount = run.kind === "fleet" ? "Env steps" : "Tokens served";
  const labels = {
    step: "train step",
    time: "time",
    elapsed: "since the start of the run",
    amount: run.kind === "fleet" ? "env step" : "token",
  };
  const xLabel = labels[axis];
  const look = useMemo(
    (): Look => ({
      runs: runsOf(run.name, search),
      axis,
      xLabel,
      span: spanOf(search),
      smooth: search.smooth ?? 0,
      isLive: mayMeasure(run.status),
    }),
    [run.name, run.status, search, axis, xLabel],
  );
  const shownMarks = search.marks ?? "all";
  const marks = useMarks(run, axis, shownMarks);
  const written = useQuery(annotationsQuery(run.name)).data?.results.length ?? 0;
  const pins = namesOf(search.pin);
  const logged = namesOf(search.log);
  const ordered = useOrdered(run, search, keys.data?.pages.flatMap((page) => page.results) ?? []);
  const total = keys.data?.pages[0]?.total ?? 0;

  if (keys.error && !keys.data) return <ErrorState title="Metrics unavailable" error={keys.error.message} />;
  if (keys.isPending || isPending || ordered.isPending) return <Skeletons heights={[60, 230, 230]} />;
  if (total === 0 && !search.q && !search.under) {
    const command = `curl -X POST ${location.origin}/api/v1/runs/${run.name}/metrics -H 'Content-Type: application/json' -H "Authorization: Bearer $ROLLDECK_TOKEN" -d '{"samples": [{"name": "loss", "step": 1, "value": 0.7}]}'`;
    return (
      <div className="panel">
        <EmptyState title="No metrics yet" guide="start/trainer" command={command} needs={{ scope: "trainer", run: run.name }}>
          Trainers log metrics by step; each name becomes a chart.
        </EmptyState>
      </div>
    );
  }
  return (
    <section aria-label="Charts">
      {keys.error && <ErrorState title="Metrics not refreshed" error={keys.error} />}
      <Bar
        run={run}
        search={search}
        change={change}
        apply={apply}
        onReset={isDefault(search) ? undefined : reset}
        amount={amount}
        marks={written}
        onMarks={() => setListing(true)}
      />
      <p className="small soft" role="status">
        {number(total)} metrics{search.under ? ` in ${visible(search.under)}` : ""}
        {search.q ? ` matching “${search.q}”` : ""}. Drag to zoom, double-click to reset, click a point for its batches and weights.
      </p>
      {picked && <PointDrawer run={run} point={picked} axis={look.axis} unit={look.xLabel} onClose={() => change(UNPICKED)} />}
      {ruled && <RuleDialog start={ruled} onClose={() => setRuled(null)} />}
      {isListing && (
        <MarksDrawer
          run={run.name}
          shown={shownMarks}
          onShow={(shown) => change({ marks: shown === "all" ? undefined : shown })}
          onClose={() => setListing(false)}
        />
      )}
      <div className={classes.parts}>
        <MetricTree
          run={run.name}
          words={search.q ?? ""}
          under={search.under ?? ""}
          onUnder={(under) => change({ under: under || undefined })}
        />
        <div className={classes.cards}>
          <Guarded>
            {(search.panels ?? []).map((expression) => {
              const isFormula = expression.startsWith("=");
              const name = isFormula ? expression : `/${expression}/`;
              const settings = {
                expression,
                look,
                marks,
                isLog: { value: logged.includes(name), change: (isOn: boolean) => onLog(name, isOn) },
                onZoom,
                onRemove: () => change({ panels: search.panels?.filter((other) => other !== expression) }),
              };
              return isFormula ? (
                <ExpressionPanel key={expression} {...settings} />
              ) : (
                <RegexPanel key={expression} run={run.name} {...settings} />
              );
            })}
            {ordered.metrics.map((metric) => (
              <MetricCard
                key={metric.name}
                metric={metric}
                title={titleOf([run.kind], metric.name)}
                look={look}
                onZoom={onZoom}
                onPick={onPick}
                onAlert={setRuled}
                marks={marks}
                isLog={logged.includes(metric.name)}
                onLog={onLog}
                isPinned={{
                  value: pins.includes(metric.name),
                  change: (isOn) => change({ pin: switched(search.pin, metric.name, isOn) }),
                }}
              />
            ))}
          </Guarded>
        </div>
      </div>
      <ShowMore pages={keys} words={`Show more of ${number(total)}`} />
    </section>
  );
}
