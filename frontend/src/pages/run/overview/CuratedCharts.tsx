import { Button, SegmentedControl } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense, useMemo } from "react";
import type { Span } from "@/api/metrics";
import { useRun } from "@/pages/run/RunContext";
import { type Picked, pickedOf } from "@/pages/run/metrics/search";
import { lookOf } from "@/pages/run/overview/asking";
import { CuratedChart } from "@/pages/run/overview/CuratedChart";
import { curatedOf } from "@/pages/run/overview/curated";
import type { OverviewSearch } from "@/pages/run/overview/search";
import classes from "./overview.module.css";

const route = getRouteApi("/shell/runs/$name/");
const PointDrawer = lazy(() => import("@/pages/run/metrics/PointDrawer"));
const UNPICKED = { pick: undefined, at: undefined, since: undefined };

/** What the deck measures of the run by itself, over one common axis. */
export function CuratedCharts() {
  const { run } = useRun();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const charts = useMemo(() => curatedOf(run.kind), [run.kind]);
  const change = (more: OverviewSearch) => void navigate({ search: (old: OverviewSearch) => ({ ...old, ...more }), replace: true, resetScroll: false });
  const onZoom = (span: Span | null) => change({ from: span?.from, to: span?.to });
  const onPick = ({ metric, from, to }: Picked) => change({ pick: metric, at: to, since: from < to ? from : undefined });
  const picked = pickedOf(search);
  const look = lookOf(run, search);
  const { axis, xLabel } = look;
  const axes = [
    { value: "time", label: "Time" },
    { value: "step", label: "Train steps" },
    { value: "amount", label: run.kind === "fleet" ? "Env steps" : "Tokens served" },
  ];
  return (
    <section aria-label="Curves">
      <div className={classes.bar}>
        <span className="small soft">Measured every ten seconds while something happens. Drag over a curve to look closer, click a point for its batches and weights.</span>
        <span className="spacer" />
        {search.from !== undefined && (
          <Button size="xs" variant="default" onClick={() => onZoom(null)}>
            Whole range
          </Button>
        )}
        <SegmentedControl
          size="xs"
          data={axes}
          value={axis}
          aria-label="Horizontal axis"
          onChange={(value) => change({ x: value === "time" ? undefined : (value as OverviewSearch["x"]), from: undefined, to: undefined, ...UNPICKED })}
        />
      </div>
      <div className="charts">
        {charts.map((chart) => (
          <CuratedChart key={chart.key} chart={chart} look={look} onZoom={onZoom} onPick={onPick} />
        ))}
      </div>
      {picked && (
        <Suspense>
          <PointDrawer run={run} point={picked} axis={axis} unit={xLabel} onClose={() => change(UNPICKED)} />
        </Suspense>
      )}
    </section>
  );
}
