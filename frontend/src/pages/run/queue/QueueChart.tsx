import { getRouteApi } from "@tanstack/react-router";
import type { Span } from "@/api/metrics";
import type { QueueAnswer, RunDetail } from "@/api/types";
import { spanOf } from "@/charts/spans";
import { DefaultChartPanel } from "@/pages/run/overview/DefaultChartPanel";
import { defaultChartsOf, namesOf } from "@/pages/run/overview/defaultCharts";
import { unitOf } from "@/runs/queued";
import { isOver } from "@/theme/chips";

const route = getRouteApi("/shell/runs/$name/queue");
/** Queue depth over time, with the threshold above which producers pause. */
export function QueueChart({ run, queue, className }: { run: RunDetail; queue: QueueAnswer | undefined; className: string }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const chart = defaultChartsOf(run.kind).find(({ key }) => key === "queue");
  const onZoom = (span: Span | null) =>
    void navigate({ search: (old) => ({ ...old, from: span?.from, to: span?.to }), replace: true, resetScroll: false });
  if (!chart) return null;
  return (
    <DefaultChartPanel
      chart={chart}
      look={{ run: run.name, axis: "time", xLabel: "time", span: spanOf(search), isLive: !isOver(run.status), names: namesOf(chart) }}
      onZoom={onZoom}
      className={className}
      current={queue?.ledger[unitOf(run.kind)].queued ?? null}
    />
  );
}
