import { useRun } from "@/pages/run/RunContext";
import { Ledger } from "@/pages/run/queue/Ledger";
import { QueueChart } from "@/pages/run/queue/QueueChart";

/** What waits, and what became of everything that came. */
export function QueueTab() {
  const { run, queue, ledger, histories } = useRun();
  return (
    <div className="charts">
      <Ledger run={run} ledger={ledger} />
      <QueueChart queue={queue} history={histories.queue} className="span-12" />
    </div>
  );
}
