import { Button, SegmentedControl, Select, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useInfiniteQuery, useQueries } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { mayMeasure, type MetricAxis, metricKeyQuery, metricKeysQuery, type Span } from "@/api/metrics";
import { namesOf, switched } from "@/charts/names";
import { spanOf } from "@/charts/spans";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { Skeletons } from "@/components/Skeletons";
import { number } from "@/format";
import type { RuleStart } from "@/pages/alerts/rules/drafts";
import { useRun } from "@/pages/run/RunContext";
import { type Look, MetricCard } from "./MetricCard";
import classes from "./metrics.module.css";
import { type MetricsSearch, type Picked, pickedOf, pinnedFirst, runsOf } from "./search";

const RuleDialog = lazy(() => import("@/pages/alerts/rules/RuleDialog"));
const PointDrawer = lazy(() => import("./PointDrawer"));

const route = getRouteApi("/shell/runs/$name/metrics");
const SMOOTHING = [
  { value: "0", label: "no smoothing" },
  { value: "0.6", label: "smoothing 0.6" },
  { value: "0.9", label: "smoothing 0.9" },
  { value: "0.98", label: "smoothing 0.98" },
];
const TYPING_MS = 250;
const UNPICKED = { pick: undefined, at: undefined, since: undefined };

type BarProps = { search: MetricsSearch; change: (more: Partial<MetricsSearch>) => void; amount: string };

function Bar({ search, change, amount }: BarProps) {
  const find = useDebouncedCallback((q: string) => change({ q: q || undefined }), TYPING_MS);
  const beside = useDebouncedCallback((runs: string) => change({ with: runs || undefined }), TYPING_MS);
  const axes = [
    { value: "step", label: "Train steps" },
    { value: "elapsed", label: "Since start" },
    { value: "time", label: "Time" },
    { value: "amount", label: amount },
  ];
  const unzoomed = { from: undefined, to: undefined };
  return (
    <div className={classes.bar}>
      <TextInput data-filter className={classes.search} size="xs" label="Find a metric" placeholder="loss, grad norm …" defaultValue={search.q} onChange={(event) => find(event.currentTarget.value)} />
      <TextInput size="xs" label="Beside these runs" placeholder="run-a, run-b" defaultValue={search.with} onChange={(event) => beside(event.currentTarget.value)} />
      <Select size="xs" label="Smoothing" data={SMOOTHING} allowDeselect={false} value={String(search.smooth ?? 0)} onChange={(value) => change({ smooth: Number(value) || undefined })} />
      <SegmentedControl size="xs" data={axes} value={search.x ?? "step"} aria-label="Horizontal axis" onChange={(x) => change({ x: x as MetricAxis, ...unzoomed, ...UNPICKED })} />
      {search.from !== undefined && (
        <Button size="xs" variant="default" onClick={() => change(unzoomed)}>
          Whole range
        </Button>
      )}
    </div>
  );
}

/** Everything that was measured, a chart for each name, finer for whatever one looks at. */
export function MetricsTab() {
  const { run } = useRun();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const [ruled, setRuled] = useState<RuleStart | null>(null);
  const keys = useInfiniteQuery(metricKeysQuery(run.name, search.q ?? ""));
  const change = (more: Partial<MetricsSearch>) => void navigate({ search: (old) => ({ ...old, ...more }), replace: !("from" in more) });
  const picked = pickedOf(search);
  const onPick = ({ metric, from, to }: Picked) => change({ pick: metric, at: to, since: from < to ? from : undefined });
  const onZoom = (span: Span | null) => change({ from: span?.from, to: span?.to });
  const axis = search.x ?? "step";
  const amount = run.kind === "fleet" ? "Env steps" : "Tokens served";
  const labels = { step: "train step", time: "time", elapsed: "since the run began", amount: run.kind === "fleet" ? "env step" : "token" };
  const look: Look = { runs: runsOf(run.name, search), axis, xLabel: labels[axis], span: spanOf(search), smooth: search.smooth ?? 0, isLive: mayMeasure(run.status) };
  const pins = namesOf(search.pin);
  const pinned = useQueries({ queries: pins.map((name) => metricKeyQuery(run.name, name)) }).flatMap(({ data }) => data ?? []);
  const found = pinnedFirst(pins, [...pinned, ...(keys.data?.pages.flatMap((page) => page.results) ?? [])]);
  const total = keys.data?.pages[0]?.total ?? 0;

  if (keys.error) return <ErrorState title="The metrics cannot be shown" error={keys.error.message} />;
  if (keys.isPending) return <Skeletons heights={[60, 230, 230]} />;
  if (total === 0 && !search.q) {
    const command = `curl -X POST ${location.origin}/api/runs/${run.name}/metrics -H 'Content-Type: application/json' -H "Authorization: Bearer $ROLLDECK_TOKEN" -d '{"samples": [{"name": "loss", "step": 1, "value": 0.7}]}'`;
    return (
      <div className="panel">
        <EmptyState title="No metric yet" command={command} needs={{ scope: "trainer", run: run.name }}>
          A trainer sends what it measures by its step; each name becomes a chart.
        </EmptyState>
      </div>
    );
  }
  return (
    <section aria-label="Metrics">
      <Bar search={search} change={change} amount={amount} />
      <p className="small soft" role="status">
        {number(total)} metrics{search.q ? ` with “${search.q}”` : ""}. Drag over a chart to look closer, double-click to see all, click a point for its batches and weights.
      </p>
      {picked && (
        <Suspense>
          <PointDrawer run={run} point={picked} axis={look.axis} unit={look.xLabel} onClose={() => change(UNPICKED)} />
        </Suspense>
      )}
      {ruled && (
        <Suspense>
          <RuleDialog start={ruled} onClose={() => setRuled(null)} />
        </Suspense>
      )}
      <div className={classes.cards}>
        {found.map((metric) => (
          <MetricCard
            key={metric.name}
            metric={metric}
            look={look}
            onZoom={onZoom}
            onPick={onPick}
            onAlert={setRuled}
            isLog={{
              value: namesOf(search.log).includes(metric.name),
              change: (isOn) => change({ log: switched(search.log, metric.name, isOn) }),
            }}
            isPinned={{
              value: pins.includes(metric.name),
              change: (isOn) => change({ pin: switched(search.pin, metric.name, isOn) }),
            }}
          />
        ))}
      </div>
      {keys.hasNextPage && (
        <div className={classes.more}>
          <Button variant="default" loading={keys.isFetchingNextPage} onClick={() => void keys.fetchNextPage()}>
            Show more of {number(total)}
          </Button>
        </div>
      )}
    </section>
  );
}
