import { Autocomplete, Button, Center, Group, Paper } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, Navigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { mayMeasure, metricNamesQuery } from "@/api/metrics";
import type { RunDetail } from "@/api/types";
import { onDemand } from "@/components/onDemand";
import { EmptyState, ErrorState, Skeletons } from "@/components/panels";
import { counted, number, visible } from "@/format";
import { annotationsQuery, useMarks } from "@/pages/run/marks";
import { useRun } from "@/pages/run/RunContext";
import { leadsOf, returnsFirst, titleOf } from "@/runs/metricOrder";
import { chartOf } from "@/share/share";
import { AxisControls, Controls, PanelPicker } from "@/wall/Controls";
import { branchesOf, type PanelSpec, panelOf, withWords } from "@/wall/panels";
import { useView } from "@/wall/useView";
import { amountOf, useWallView } from "@/wall/useWallView";
import { Views } from "@/wall/Views";
import { pickedOf, runsOf, UNPICKED } from "@/wall/view";
import { Wall } from "@/wall/Wall";

const MarksDrawer = onDemand(() => import("./MarksDrawer"), "default");
const PointDrawer = onDemand(() => import("@/pages/run/metrics/PointDrawer"), "default");

const route = getRouteApi("/shell/runs/$name/metrics");
const PANELS_A_PAGE = 60;
const POINTS = 600;
const TYPING_MS = 250;
const AXES = ["step", "elapsed", "time", "amount"] as const;
const BRANCHES_LISTED = 50;
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
  const view = useView({ search, navigate: route.useNavigate(), page: `charts-${run.kind}` });
  const { change, apply } = view;
  const [pages, setPages] = useState(1);
  const [isListing, setListing] = useState(false);
  const find = useDebouncedCallback((q: string) => change({ q: q || undefined }), TYPING_MS);
  const { q = "", charts = NO_NAMES, x: axis = "step" } = search;
  const marks = useMarks(run, axis);
  const written = useQuery(annotationsQuery(run.name)).data?.results.length ?? 0;
  const wallView = useWallView({
    runs: [run.name],
    kinds: [run.kind],
    view: search,
    usual: "step",
    points: POINTS,
    sync: "metrics",
    marks,
    isLive: mayMeasure(run.status),
    change,
    isPickable: true,
  });

  const branches = useMemo(() => branchesOf(names), [names]);
  const found = useMemo(() => withWords(names, q), [names, q]);
  // A linked chart may be on a later page of the list.
  const linked = chartOf(search.focus);
  const panels = useMemo(() => {
    const leads = q ? [] : leadsOf([run.kind], names);
    const chosen = charts.filter((text) => panelOf(text).source.kind !== "metric" || names.includes(text));
    const first = [...chosen, ...leads, ...names.filter((name) => name === linked)];
    const rest = returnsFirst([run.kind], found, (name) => name).slice(0, pages * PANELS_A_PAGE);
    return [...new Set([...first, ...rest])].map((text) => specOf(text, run.kind));
  }, [names, found, charts, linked, q, run.kind, pages]);

  // Links of earlier versions with other runs beside that of the page.
  if (search.runs) return <Navigate to="/compare" search={{ ...search, runs: runsOf(search, run.name).join(",") }} replace />;
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
            <Views run={run.name} search={search} apply={apply} />
            <Button
              size="xs"
              variant="default"
              renderRoot={(props) => <Link to="/compare" search={{ ...search, ...UNPICKED, q: undefined, runs: run.name }} {...props} />}
            >
              Compare
            </Button>
            <Button size="xs" variant="default" onClick={() => setListing(true)} title="Annotations on the charts">
              {written > 0 ? `Annotations (${written})` : "Annotations"}
            </Button>
          </>
        }
      >
        <Autocomplete
          key={`q ${search.view}`}
          data-filter
          flex="1 1 10rem"
          size="xs"
          label="Find metrics"
          placeholder="loss, grad norm …"
          defaultValue={q}
          onChange={find}
          data={[...branches.keys()]}
          limit={BRANCHES_LISTED}
          renderOption={({ option }) => (
            <Group justify="space-between" flex={1} wrap="nowrap">
              <span className="anywhere">{visible(option.value)}</span>
              <span className="faint tiny">{number(branches.get(option.value) ?? 0)}</span>
            </Group>
          )}
        />
        <PanelPicker names={names} chosen={charts} onChange={(texts) => change({ charts: texts })} />
        <AxisControls
          view={search}
          axis={axis}
          usual="step"
          axes={AXES}
          change={change}
          onReset={view.reset}
          amount={amountOf([run.kind]).title}
        />
      </Controls>
      <p className="small soft" role="status">
        {counted(found.length, "metric")}
        {q ? ` matching “${q}”` : ""}. Drag to zoom, double-click to reset, click a point for its batches and weights.
      </p>
      {picked && <PointDrawer run={run} point={picked} axis={axis} unit={wallView.xLabel} onClose={() => change(UNPICKED)} />}
      {isListing && <MarksDrawer run={run.name} onClose={() => setListing(false)} />}
      <Wall panels={panels} view={wallView} />
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
