import { useRun } from "@/pages/run/RunContext";
import { Events } from "@/pages/run/logs/Events";
import { Figures } from "@/pages/run/overview/Figures";
import { RunCharts } from "@/pages/run/overview/RunCharts";
import { Ledger } from "@/pages/run/queue/Ledger";

/** How the run is, on one screen. */
export function OverviewTab() {
  const { run, fleet, queue, ledger, episodes, events, speed } = useRun();
  return (
    <>
      <Figures run={run} fleet={fleet} queue={queue} last={episodes.at(-1)} speed={speed} />
      <div className="charts">
        <RunCharts />
        <Ledger run={run} ledger={ledger} />
        <Events events={events} />
      </div>
    </>
  );
}
