import "@/pages/run/logs/logs.css";
import { useRun } from "@/pages/run/RunContext";
import { Events } from "@/pages/run/logs/Events";

/** What happened, newest first. */
export function LogsTab() {
  return (
    <div className="charts">
      <Events events={useRun().events} />
    </div>
  );
}
