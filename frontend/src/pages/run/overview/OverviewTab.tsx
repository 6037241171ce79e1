import { useQuery } from "@tanstack/react-query";
import { runAlertsQuery } from "@/api/alerts";
import { isLoss } from "@/components/DataLoss";
import { onDemand } from "@/components/onDemand";
import { Guarded, Panels } from "@/components/Panels";
import { Skeletons } from "@/components/Skeletons";
import { Events } from "@/pages/run/logs/Events";
import { Figures } from "@/pages/run/overview/Figures";
import { OverviewCharts } from "@/pages/run/overview/OverviewCharts";
import { RunAlerts } from "@/pages/run/overview/RunAlerts";
import { StartCard } from "@/pages/run/overview/StartCard";
import { Ledger } from "@/pages/run/queue/Ledger";
import { useRun } from "@/pages/run/RunContext";
import classes from "./overview.module.css";

const NotesPanel = onDemand(() => import("@/pages/run/notes/NotesPanel"), "default");
const Newest = onDemand(() => import("@/pages/run/overview/Newest"), "default");

/** The run on one screen: figures, status, curves with the return first, ledger and newest data. */
export function OverviewTab() {
  const { run, fleet, queue, ledger, episodes, events, speed } = useRun();
  const alerts = useQuery(runAlertsQuery(run.name));
  // Alerts that are shown late would move the curves.
  if (alerts.isPending) return <Skeletons heights={[76, 44, 330, 330]} />;
  return (
    <Guarded>
      <StartCard />
      <Figures run={run} fleet={fleet} queue={queue} ledger={ledger} last={episodes.at(-1)} speed={speed} />
      <Panels className={classes.first}>
        <RunAlerts run={run} rows={(alerts.data ?? []).filter((alert) => !isLoss(alert))} />
      </Panels>
      <OverviewCharts />
      <Panels className={classes.rest}>
        <Ledger run={run} ledger={ledger} />
        <div className={`span-12 ${classes.notes}`}>
          <NotesPanel run={run.name} events={events} />
        </div>
        <Newest run={run} />
        <Events events={events} />
      </Panels>
    </Guarded>
  );
}
