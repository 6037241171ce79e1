import type { QueuePart } from "@/api/types";
import { Chart } from "@/charts/Chart";
import { Panel } from "@/components/Panel";
import { number } from "@/format";
import type { History } from "@/pages/run/overview/history";

type Props = { queue: QueuePart | undefined; history: History; className: string; unit?: string };

/** How much waits to be served, against the threshold above which producers pause. */
export function QueueChart({ queue, history, className, unit = "items" }: Props) {
  const limit = queue?.threshold || null;
  const over = queue?.over_threshold;
  return (
    <Panel title="Queue depth" note={`in ${unit}, since this page was opened`} className={className}>
      <Chart
        name={`${unit} queued against the threshold above which producers pause`}
        x={history.x}
        isTime
        xLabel="time"
        lines={[
          { label: "queued", values: history.values[0] ?? [], role: 1 },
          { label: "threshold", values: history.values[1] ?? [], role: 2, dashed: true, thin: true },
        ]}
        height={268}
        floor={0}
        steps
        empty="Nothing was queued yet."
      />
      <div className={`legend tiny ${over ? "held" : "soft"}`}>
        {queue &&
          `${over ? "▲ over the threshold: " : ""}${number(queue.queued_sequences ?? queue.queued)} queued; ${limit ? `producers pause above ${number(limit)}` : "the trainer sets the threshold when it registers"}`}
      </div>
    </Panel>
  );
}
