import "@/pages/run/logs/logs.css";
import { FleetTable } from "@/pages/run/fleet/FleetTable";
import { Recordings } from "@/pages/run/fleet/Recordings";
import { useRun } from "@/pages/run/RunContext";

/** Every worker, and films of what its environments did. */
export function FleetTab() {
  const { run, fleet, verdict } = useRun();
  return (
    <div className="charts">
      <FleetTable fleet={fleet} run={run} verdict={verdict} />
      {/* Lessons are words: there is nothing to film. */}
      {run.kind === "fleet" && <Recordings run={run} workers={fleet?.workers ?? []} />}
    </div>
  );
}
