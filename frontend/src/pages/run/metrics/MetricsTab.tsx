import { EmptyState } from "@/components/EmptyState";
import { useRun } from "@/pages/run/RunContext";
import { MetricCharts } from "@/pages/run/metrics/MetricCharts";

/** What the trainer measured. */
export function MetricsTab() {
  const { run, metrics } = useRun();
  if (metrics.length === 0) {
    return (
      <div className="panel">
        <EmptyState title="No metric yet" command={`curl -X POST ${location.origin}/api/runs/${run.name}/metrics -H 'Content-Type: application/json' -H 'Authorization: Bearer …' -d '{"step": 1, "metrics": {"loss": 0.7}}'`}>
          A trainer sends what it measures by its step; each name becomes a chart.
        </EmptyState>
      </div>
    );
  }
  return <MetricCharts rows={metrics} />;
}
