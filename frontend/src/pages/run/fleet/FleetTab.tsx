import "@/pages/run/logs/logs.css";
import { FleetTable } from "@/pages/run/fleet/FleetTable";
import { Recordings } from "@/pages/run/fleet/Recordings";
import { useRun } from "@/pages/run/RunContext";

/** All workers, and recordings of episodes. */
export function FleetTab() {
  const { run, fleet, diagnosis } = useRun();
  return (
    <div className="charts">
      <FleetTable fleet={fleet} run={run} diagnosis={diagnosis} />
      {/* Language runs have no frames to record. */}
      {run.kind === "fleet" && <Recordings run={run} workers={fleet?.workers ?? []} />}
    </div>
  );
}
