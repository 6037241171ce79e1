import { Button, NativeSelect, SegmentedControl } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { type ReactNode, useEffect, useMemo, useState } from "react";
import type { Span } from "@/api/metrics";
import type { RunDetail } from "@/api/types";
import { Smoothing } from "@/charts/Smoothing";
import { onDemand } from "@/components/onDemand";
import { Panels } from "@/components/Panels";
import { DiagnosisLine } from "@/diagnosis/Diagnosis";
import { live } from "@/live/live";
import { type Picked, pickedOf } from "@/pages/run/metrics/search";
import { currentOf } from "@/pages/run/overview/current";
import { type Look, lookOf } from "@/pages/run/overview/curves";
import { DefaultChartPanel } from "@/pages/run/overview/DefaultChartPanel";
import { defaultChartsOf } from "@/pages/run/overview/defaultCharts";
import { nextRange, RANGE_WORDS, RANGES, type Range, rangeOf, spanSince } from "@/pages/run/overview/range";
import type { OverviewSearch } from "@/pages/run/overview/search";
import { useRun } from "@/pages/run/RunContext";
import { useShortcuts } from "@/shell/keyboard";
import classes from "./overview.module.css";

const route = getRouteApi("/shell/runs/$name/");
const PointDrawer = onDemand(() => import("@/pages/run/metrics/PointDrawer"), "default");
const UNPICKED = { pick: undefined, at: undefined, since: undefined };
const UNZOOMED = { from: undefined, to: undefined };
/** The interval at which new data appears. */
const STEP_MS = 10_000;
const RANGE_CHOICES = RANGES.map((range) => ({ value: String(range), label: RANGE_WORDS[range] }));

/** The last seconds of a range, moving while the page is open. */
function useMovingSpan(range: Range): Span | undefined {
  const [now, setNow] = useState(() => live.serverNow());
  useEffect(() => {
    if (range === 0) return;
    setNow(live.serverNow());
    const timer = setInterval(() => setNow(live.serverNow()), STEP_MS);
    return () => clearInterval(timer);
  }, [range]);
  return useMemo(() => spanSince(now, range, STEP_MS), [now, range]);
}

type BarProps = { search: OverviewSearch; work: string; change: (more: OverviewSearch) => void; children: ReactNode };

/** The run's diagnosis, and controls of axis and range. */
function Bar({ search, work, change, children }: BarProps) {
  const axis = search.x ?? "time";
  const range = search.last ?? 0;
  const isZoomed = search.from !== undefined;
  const look = (last: Range) => change({ last: last || undefined, ...UNZOOMED, ...UNPICKED });
  useShortcuts({ ".": () => axis === "time" && look(isZoomed ? 0 : nextRange(range)) });
  const axes = [
    { value: "time", label: "Time" },
    { value: "step", label: "Train steps" },
    { value: "amount", label: work },
  ];
  return (
    <div className={classes.bar}>
      {children}
      <div className={classes.controls}>
        {isZoomed && (
          <Button size="xs" variant="default" onClick={() => change(UNZOOMED)}>
            Reset zoom
          </Button>
        )}
        {axis === "time" && !isZoomed && (
          <NativeSelect
            size="xs"
            aria-label="Time range"
            data={RANGE_CHOICES}
            value={String(range)}
            onChange={(event) => look(rangeOf(event.currentTarget.value) ?? 0)}
          />
        )}
        <Smoothing value={search.smooth ?? 0} onChange={(smooth) => change({ smooth: smooth || undefined })} />
        <SegmentedControl
          size="xs"
          data={axes}
          value={axis}
          aria-label="Horizontal axis"
          title="Measured every 10 s; returns and lengths have a point per train step. Drag to zoom, click a point for its batches and weights."
          onChange={(value) =>
            change({ x: value === "time" ? undefined : (value as OverviewSearch["x"]), last: undefined, ...UNZOOMED, ...UNPICKED })
          }
        />
      </div>
    </div>
  );
}

const UNDER_WAY = new Set<RunDetail["status"]>(["queued", "starting", "running", "paused", "draining"]);

/** The built-in metrics of a run on a common axis, below its diagnosis. */
export function OverviewCharts() {
  const { run, diagnosis, ledger, episodes, speed } = useRun();
  const current = currentOf({ run, ledger, last: episodes.at(-1), speed });
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const moving = useMovingSpan(search.last ?? 0);
  const change = (more: OverviewSearch) =>
    void navigate({ search: (old: OverviewSearch) => ({ ...old, ...more }), replace: true, resetScroll: false });
  const onZoom = (span: Span | null) => change({ from: span?.from, to: span?.to, last: undefined });
  const onPick = ({ metric, from, to }: Picked) => change({ pick: metric, at: to, since: from < to ? from : undefined });
  const picked = pickedOf(search);
  const stored = lookOf(run, search);
  const look: Look = { ...stored, span: stored.span ?? moving };
  const { axis, xLabel } = look;
  return (
    <section aria-label="Charts">
      <Bar search={search} work={run.kind === "fleet" ? "Env steps" : "Tokens served"} change={change}>
        {/* Runs that have not started or have ended have no bottleneck. */}
        {UNDER_WAY.has(run.status) && <DiagnosisLine run={run.name} diagnosis={diagnosis} className={classes.diagnosis} />}
      </Bar>
      <Panels>
        {defaultChartsOf(run.kind).map((chart) => (
          <DefaultChartPanel
            key={chart.key}
            chart={chart}
            look={look}
            smooth={search.smooth}
            onZoom={onZoom}
            onPick={onPick}
            current={current[chart.key]}
          />
        ))}
      </Panels>
      {picked && <PointDrawer run={run} point={picked} axis={axis} unit={xLabel} onClose={() => change(UNPICKED)} />}
    </section>
  );
}
