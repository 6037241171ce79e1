import { useMemo } from "react";
import type { MachineCordon, MachineHistory } from "@/api/deployment";
import { Chart } from "@/charts/Chart";
import { cordonMarks, machineCharts } from "@/pages/cluster/machineUsage";
import css from "./cluster.module.css";

const HEIGHT = 156;

/** CPU, memory and GPUs of one machine over time. */
export default function MachineCharts({ history, cordons }: { history: MachineHistory; cordons: MachineCordon[] }) {
  const { x, charts } = useMemo(() => machineCharts(history), [history]);
  const marks = useMemo(() => cordonMarks(history.node, cordons), [history.node, cordons]);
  return (
    <div className={css.usage}>
      {charts.map(({ key, title, note, label, values, role }) => (
        <div key={key} data-machine-chart={key}>
          <h3>
            {title} <span className="faint small">{note}</span>
          </h3>
          <Chart
            name={`${title}, ${note}`}
            x={x}
            isTime
            xLabel="time"
            lines={[{ label, values, role }]}
            height={HEIGHT}
            floor={0}
            least={0.1}
            sync="machine"
            marks={marks}
            empty="Not measured in this range. A machine is measured while a fleet has workers on it."
          />
        </div>
      ))}
    </div>
  );
}
