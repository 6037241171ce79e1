import { useMemo } from "react";
import type { MetricRow } from "@/api/types";
import { Chart } from "@/charts/Chart";
import { metricColumns } from "@/charts/columns";
import { Panel } from "@/components/Panel";
import { number, visible } from "@/format";
import { PAST_ROWS } from "@/live/past";

const METRICS_SHOWN = 24;

/** One small chart for each metric that the trainer sends. */
export function MetricCharts({ rows }: { rows: MetricRow[] }) {
  const metrics = useMemo(() => metricColumns(rows), [rows]);
  if (metrics.length === 0) return null;
  const hidden = metrics.length - METRICS_SHOWN;
  const cut = rows.length >= PAST_ROWS ? `, newest ${number(rows.length)} samples` : "";
  const note = `sent by the trainer, by train step${cut}${hidden > 0 ? `; ${hidden} more over the API` : ""}`;
  return (
    <Panel title="Training" note={note} className="span-12">
      <div className="metrics">
        {metrics.slice(0, METRICS_SHOWN).map(({ name, x, y }) => (
          <div key={name}>
            <h3>
              {visible(name).replaceAll("_", " ")} <span className="soft">{number(y.at(-1))}</span>
            </h3>
            <Chart
              name={visible(name)}
              x={x}
              isTime={false}
              xLabel="train step"
              lines={[{ label: visible(name), values: y, role: 1 }]}
              height={118}
              sync="metrics"
              empty="No sample yet."
            />
          </div>
        ))}
      </div>
    </Panel>
  );
}
