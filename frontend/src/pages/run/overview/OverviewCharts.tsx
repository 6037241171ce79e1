import { Box, Group, NativeSelect } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";
import { mayMeasure, type Span } from "@/api/metrics";
import type { RunDetail } from "@/api/types";
import { onDemand } from "@/components/onDemand";
import { PANEL_GRID } from "@/components/panels";
import { DiagnosisLine } from "@/diagnosis/Diagnosis";
import { live } from "@/live/live";
import { useMarks } from "@/pages/run/marks";
import { currentOf } from "@/pages/run/overview/current";
import { speedOf, useDiagnosis, useRun, useRunPart, useRunSeries } from "@/pages/run/RunContext";
import { useShortcuts } from "@/shell/keyboard";
import { AxisControls } from "@/wall/Controls";
import { namesOfPresets, PRESET_POINTS, presetsOf } from "@/wall/presets";
import { amountOf, useWallView } from "@/wall/useWallView";
import { pickedOf, RANGES, type Range, UNPICKED, UNZOOMED, type View } from "@/wall/view";
import { Wall } from "@/wall/Wall";

const route = getRouteApi("/shell/runs/$name/");

const PointDrawer = onDemand(() => import("@/pages/run/metrics/PointDrawer"), "default");

const AXES = ["time", "step", "amount"] as const;
/** The interval at which new data appears. */
const STEP_MS = 10_000;
const RANGE_WORDS: Record<Range, string> = { 900: "Last 15 min", 3600: "Last hour", 21_600: "Last 6 h", 86_400: "Last day" };
const RANGE_CHOICES = [
  { value: "0", label: "Entire run" },
  ...RANGES.map((range) => ({ value: String(range), label: RANGE_WORDS[range] })),
];
const HINT =
  "Measured every 10 s; returns and lengths have a point per train step. Drag to zoom, click a point for its batches and weights.";
const UNDER_WAY = new Set<RunDetail["status"]>(["queued", "starting", "running", "paused", "draining"]);

/** The last seconds of a range, which move in steps while the page is open, so that responses can be cached. */
function useMovingSpan(range: Range | undefined): Span | undefined {
  const [now, setNow] = useState(() => live.serverNow());
  useEffect(() => {
    if (range === undefined) return;
    setNow(live.serverNow());
    const timer = setInterval(() => setNow(live.serverNow()), STEP_MS);
    return () => clearInterval(timer);
  }, [range]);
  return useMemo(() => {
    const to = (Math.ceil(now / STEP_MS) * STEP_MS) / 1000;
    return range === undefined ? undefined : { from: to - range, to };
  }, [now, range]);
}

/** The built-in metrics of a run on a common axis, below its diagnosis. */
export function OverviewCharts() {
  const { run } = useRun();
  const diagnosis = useDiagnosis();
  const ledger = useRunPart("ledger");
  const episodes = useRunSeries("episodes");
  const speed = speedOf(useRunPart("fleet"));
  const current = currentOf({ run, ledger, last: episodes.at(-1), speed });
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { x: axis = "time", from, last } = search;
  const moving = useMovingSpan(last);
  const change = (more: View) => void navigate({ search: (old) => ({ ...old, ...more }), replace: true, resetScroll: false });
  const marks = useMarks(run, axis);
  const view = useWallView({
    runs: [run.name],
    kinds: [run.kind],
    view: search,
    usual: "time",
    moving,
    points: PRESET_POINTS,
    sync: "overview",
    marks,
    isLive: mayMeasure(run.status),
    change,
    isPickable: true,
  });
  const isZoomed = from !== undefined;
  const show = (range: Range | undefined) => change({ last: range, ...UNZOOMED, ...UNPICKED });
  // After the longest range, the entire run.
  const next = RANGES[last === undefined ? 0 : RANGES.indexOf(last) + 1];
  useShortcuts({ ".": () => axis === "time" && show(isZoomed ? undefined : next) });
  const picked = pickedOf(search);
  return (
    <section aria-label="Charts">
      <Group gap="0.5rem 1rem" pb="xs">
        {/* Runs that have not started or have ended have no bottleneck. */}
        <Box flex="1 1 24rem" miw={0}>
          {UNDER_WAY.has(run.status) && <DiagnosisLine run={run.name} diagnosis={diagnosis} />}
        </Box>
        <Group gap="xs">
          <AxisControls view={search} axis={axis} usual="time" axes={AXES} change={change} title={HINT} amount={amountOf([run.kind]).title}>
            {axis === "time" && !isZoomed && (
              <NativeSelect
                size="xs"
                aria-label="Time range"
                data={RANGE_CHOICES}
                value={String(last ?? 0)}
                onChange={(event) => show(RANGES.find((range) => range === Number(event.currentTarget.value)))}
              />
            )}
          </AxisControls>
        </Group>
      </Group>
      <Wall panels={presetsOf(run.kind)} view={view} together={namesOfPresets} className={PANEL_GRID} current={current} />
      {picked && <PointDrawer run={run} point={picked} axis={axis} unit={view.xLabel} onClose={() => change(UNPICKED)} />}
    </section>
  );
}
