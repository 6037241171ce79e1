import { Panels } from "@/components/Panels";
import { FleetTable } from "@/pages/run/fleet/FleetTable";
import { Recordings } from "@/pages/run/fleet/Recordings";
import { Resources } from "@/pages/run/fleet/Resources";
import { useRun } from "@/pages/run/RunContext";

/** All workers, their resources over time, and recordings of episodes. */
export function FleetTab() {
  const { run, fleet, diagnosis } = useRun();
  return (
    <Panels>
      <FleetTable fleet={fleet} run={run} diagnosis={diagnosis} />
      {run.kind !== "outside" && <Resources run={run} workers={fleet?.workers ?? []} />}
      {/* Language runs have no frames to record. */}
      {run.kind === "fleet" && <Recordings run={run} workers={fleet?.workers ?? []} />}
    </Panels>
  );
}
