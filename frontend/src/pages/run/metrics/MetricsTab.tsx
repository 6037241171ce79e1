import { Button, Center, Paper, TextInput } from "@mantine/core";
import { useCallbackRef, useDebouncedCallback } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { mayMeasure, metricNamesQuery } from "@/api/metrics";
import type { RunDetail } from "@/api/types";
import { namesOf, toggled, wordOf } from "@/charts/names";
import { onDemand } from "@/components/onDemand";
import { EmptyState, ErrorState, Skeletons } from "@/components/panels";
import { number, visible } from "@/format";
import { annotationsQuery, useMarks } from "@/pages/run/marks";
import { MetricTree, withWords } from "@/pages/run/metrics/MetricTree";
import { useRun } from "@/pages/run/RunContext";
import { leadsOf, returnsFirst, titleOf } from "@/runs/metricOrder";
import { chartOf } from "@/share/share";
import { AxisControls, Controls, NewPanel, RunLegend } from "@/wall/Controls";
import { type PanelSpec, panelOf } from "@/wall/panels";
import { useView } from "@/wall/useView";
import { amountOf, useWallView } from "@/wall/useWallView";
import { Views } from "@/wall/Views";
import { pickedOf, runsOf, UNPICKED } from "@/wall/view";
import { Wall } from "@/wall/Wall";
import classes from "./metrics.module.css";

const MarksDrawer = onDemand(() => import("./MarksDrawer"), "default");
const PointDrawer = onDemand(() => import("@/pages/run/metrics/PointDrawer"), "default");

const route = getRouteApi("/shell/runs/$name/metrics");
const PANELS_A_PAGE = 60;
const POINTS = 600;
const TYPING_MS = 250;
const AXES = ["step", "elapsed", "time", "amount"] as const;
const NO_NAMES: string[] = [];

/** The panel of a metric with its title; added panels take the whole width. */
function specOf(text: string, kind: RunDetail["kind"]): PanelSpec {
  const spec = panelOf(text);
  if (spec.source.kind !== "metric") return { ...spec, height: 260, columns: 12 };
  const title = titleOf([kind], text);
  return title === undefined ? spec : { ...spec, title, note: visible(text) };
}

/** All metrics of a run, one panel per name: chosen ones first, then returns and evaluations. */
export function MetricsTab() {
  const { run } = useRun();
  const search = route.useSearch();
  const { data: names = NO_NAMES, error, isPending } = useQuery(metricNamesQuery(run.name));
  const known = useMemo(() => (isPending ? undefined : new Set(names)), [names, isPending]);
  const view = useView({ search, navigate: route.useNavigate(), page: `charts-${run.kind}`, known });
  const { change, apply } = view;
  const [pages, setPages] = useState(1);
  const [isListing, setListing] = useState(false);
  const find = useDebouncedCallback((q: string) => change({ q: q || undefined }), TYPING_MS);
  const beside = useDebouncedCallback((runs: string) => change({ runs: runs || undefined }), TYPING_MS);
  const { q = "", under = "", charts = NO_NAMES, x: axis = "step", marks: shownMarks = "all" } = search;
  const runs = runsOf(search, run.name);
  const marks = useMarks(run, axis, shownMarks);
  const written = useQuery(annotationsQuery(run.name)).data?.results.length ?? 0;

  const onToggle = useCallbackRef((key: string) => {
    const left = toggled(charts, key);
    change({ charts: left.length > 0 ? left : undefined });
  });
  const wallView = useWallView({
    ...{ runs, kinds: [run.kind], view: search, usual: "step", points: POINTS, sync: "metrics", marks },
    ...{ isLive: mayMeasure(run.status), change, isPickable: true },
  });

  const found = useMemo(() => withWords(names, q).filter((name) => name.startsWith(under)), [names, q, under]);
  // A linked chart may be on a later page of the list.
  const linked = chartOf(search.focus);
  const panels = useMemo(() => {
    const leads = q || under ? [] : leadsOf([run.kind], names);
    const chosen = charts.filter((text) => panelOf(text).source.kind !== "metric" || names.includes(text));
    const first = [...chosen, ...leads, ...names.filter((name) => name === linked)];
    const rest = returnsFirst([run.kind], found, (name) => name).slice(0, pages * PANELS_A_PAGE);
    return [...new Set([...first, ...rest])].map((text) => specOf(text, run.kind));
  }, [names, found, charts, linked, q, under, run.kind, pages]);

  if (error && names.length === 0) return <ErrorState title="Metrics unavailable" error={error} />;
  if (isPending || view.isPending) return <Skeletons heights={[60, 230, 230]} />;
  if (names.length === 0) {
    const command = `curl -X POST ${location.origin}/api/v1/runs/${run.name}/metrics -H 'Content-Type: application/json' -H "Authorization: Bearer $ROLLDECK_TOKEN" -d '{"samples": [{"name": "loss", "step": 1, "value": 0.7}]}'`;
    return (
      <Paper>
        <EmptyState title="No metrics yet" guide="start/trainer" command={command} needs={{ scope: "trainer", run: run.name }}>
          Trainers log metrics by step; each name becomes a chart.
        </EmptyState>
      </Paper>
    );
  }
  const picked = pickedOf(search);
  return (
    <section aria-label="Charts">
      {error && <ErrorState title="Metrics not refreshed" error={error} />}
      <Controls
        aside={
          <>
            <Views run={run} search={search} apply={apply} />
            <Button size="xs" variant="default" onClick={() => setListing(true)} title="Annotations on the charts">
              {written > 0 ? `Annotations (${written})` : "Annotations"}
            </Button>
          </>
        }
      >
        <TextInput
          key={`q ${search.view}`}
          data-filter
          className={classes.search}
          size="xs"
          label="Find metrics"
          placeholder="loss, grad norm …"
          defaultValue={q}
          onChange={(event) => find(event.currentTarget.value)}
        />
        <NewPanel charts={charts} onAdd={(text) => change({ charts: [...new Set([...charts, text])] })} />
        <TextInput
          key={`runs ${search.view}`}
          className={classes.narrow}
          size="xs"
          label="Compare with"
          placeholder="run-a, run-b"
          defaultValue={search.runs}
          onChange={(event) => beside(event.currentTarget.value)}
        />
        <AxisControls
          {...{ view: search, axis, usual: "step", axes: AXES, change, onReset: view.reset }}
          amount={amountOf([run.kind]).title}
        />
      </Controls>
      {runs.length > 1 && (
        <RunLegend
          runs={runs.map((name) => ({ name, isFixed: name === run.name }))}
          hidden={{ value: namesOf(search.hide), change: (hide) => change({ hide: wordOf(hide) }) }}
          onRemove={(name) => change({ runs: wordOf(runs.filter((each) => each !== name && each !== run.name)) })}
        />
      )}
      <p className="small soft" role="status">
        {number(found.length)} metrics{under ? ` in ${visible(under)}` : ""}
        {q ? ` matching “${q}”` : ""}. Drag to zoom, double-click to reset, click a point for its batches and weights.
      </p>
      {picked && <PointDrawer run={run} point={picked} axis={axis} unit={wallView.xLabel} onClose={() => change(UNPICKED)} />}
      {isListing && (
        <MarksDrawer
          run={run.name}
          shown={shownMarks}
          onShow={(shown) => change({ marks: shown === "all" ? undefined : shown })}
          onClose={() => setListing(false)}
        />
      )}
      <div className={classes.parts}>
        <MetricTree names={names} words={q} under={under} onUnder={(path) => change({ under: path || undefined })} />
        <Wall panels={panels} view={wallView} chosen={charts} onToggle={onToggle} />
      </div>
      {found.length > pages * PANELS_A_PAGE && (
        <Center p="xs">
          <Button size="compact-sm" variant="default" onClick={() => setPages(pages + 1)}>
            Show more of {number(found.length)}
          </Button>
        </Center>
      )}
    </section>
  );
}
