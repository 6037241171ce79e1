import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { mayMeasure, type Span } from "@/api/metrics";
import type { RunDetail, WorkerRow } from "@/api/types";
import { Panels } from "@/components/Panels";
import { isGpuLine, resourceCharts, resourceNames } from "@/pages/run/fleet/resources";
import { curvesQuery, type Look } from "@/pages/run/overview/curves";
import { DefaultChartPanel } from "@/pages/run/overview/DefaultChartPanel";
import css from "./fleet.module.css";

/** CPU, memory and GPU of a fleet over time, with the events of its run. */
export function Resources({ run, workers }: { run: RunDetail; workers: WorkerRow[] }) {
  const [span, setSpan] = useState<Span | null>(null);
  const look: Look = {
    run: run.name,
    axis: "time",
    xLabel: "time",
    span: span ?? undefined,
    isLive: mayMeasure(run.status),
    names: resourceNames(workers),
  };
  // Only the charts request the lines, and only while on screen.
  const { data } = useQuery({ ...curvesQuery(look), enabled: false });
  const charts = resourceCharts(workers, data?.some(isGpuLine) ?? false);
  return (
    <section className="span-12" aria-label="Resources">
      <div className={css.resources}>
        <h2>Resources</h2>
        <span className="small soft">
          Sampled every 10 s. Dotted lines: changes of the run, launches and ended workers; up to 24 weight versions in view.
        </span>
        <span className="spacer" />
        {span && (
          <Button size="xs" variant="default" onClick={() => setSpan(null)}>
            Reset zoom
          </Button>
        )}
      </div>
      <Panels>
        {charts.map((chart) => (
          <DefaultChartPanel key={chart.key} chart={chart} look={look} onZoom={setSpan} className="span-6" events="fleet" />
        ))}
      </Panels>
    </section>
  );
}
