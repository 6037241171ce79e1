import { useRun } from "@/pages/run/RunContext";
import { Events } from "@/pages/run/logs/Events";
import { CuratedCharts } from "@/pages/run/overview/CuratedCharts";
import { Figures } from "@/pages/run/overview/Figures";
import { Ledger } from "@/pages/run/queue/Ledger";
import classes from "./overview.module.css";

/** How the run is, on one screen. */
export function OverviewTab() {
  const { run, fleet, queue, ledger, episodes, events, speed } = useRun();
  return (
    <>
      <Figures run={run} fleet={fleet} queue={queue} last={episodes.at(-1)} speed={speed} />
      <CuratedCharts />
      <div className={`charts ${classes.rest}`}>
        <Ledger run={run} ledger={ledger} />
        <Events events={events} />
      </div>
    </>
  );
}
