import { getRouteApi } from "@tanstack/react-router";
import type { FleetPart, RunDetail } from "@/api/types";
import { StateChip } from "@/components/chips";
import { AppLink } from "@/components/inline";
import { EmptyState, Panel, Panels, rolldeckCommand } from "@/components/panels";
import { counted } from "@/format";
import { DataFlow } from "@/pages/run/fleet/DataFlow";
import { FleetSize, present } from "@/pages/run/fleet/FleetSize";
import { Recordings } from "@/pages/run/fleet/Recordings";
import { Resources } from "@/pages/run/fleet/Resources";
import { Workers } from "@/pages/run/fleet/Workers";
import { NoDataYet } from "@/pages/run/NoDataYet";
import { useDiagnosis, useRun, useRunPart } from "@/pages/run/RunContext";
import { environmentCommand, wordsOf } from "@/runs/words";
import { FLEET_START_SECONDS, isOver, WORKER_PROOF_SECONDS } from "@/theme/chips";

const route = getRouteApi("/shell/runs/$name/fleet");

/** The state of the fleet, confirmed by its manager's last report. */
function FleetChip({ fleet }: { fleet: FleetPart | undefined }) {
  if (!fleet || fleet.observed === "none") return null;
  const allowed = fleet.observed === "starting" ? FLEET_START_SECONDS : WORKER_PROOF_SECONDS;
  return (
    <span data-fleet-state>
      <StateChip state={fleet.observed} provenAt={fleet.confirmed_at} allowedSeconds={allowed} reason={fleet.reason} />
    </span>
  );
}

function NoWorkers({ run }: { run: RunDetail }) {
  const { name: of, kind, status, allowed_verbs } = run;
  if (kind === "outside") {
    const command = environmentCommand(of, location.origin);
    return (
      <EmptyState title="No fleet" guide="howto/atropos" command={command} needs={{ scope: "env", run: of }}>
        The data of this run comes from external environments. Connect an Atropos environment to this URL:
      </EmptyState>
    );
  }
  if (isOver(status)) {
    const fill = allowed_verbs.includes("start")
      ? ({ command: rolldeckCommand(`run start ${of}`), needs: { scope: "user", run: of } } as const)
      : { action: <AppLink to={`/runs/new?from=${of}`}>Launch a clone</AppLink> };
    return (
      <EmptyState title="No workers" {...fill}>
        The run is {status}, and its fleet has stopped. Its history remains available.
      </EmptyState>
    );
  }
  return (
    <NoDataYet title="No workers yet" guide="start/trainer">
      Workers appear when the fleet has started. They generate data once a trainer has published its first weights.
    </NoDataYet>
  );
}

/** All workers: heartbeat, activity and weights version. */
function FleetTable({ fleet, run }: { fleet: FleetPart | undefined; run: RunDetail }) {
  const workers = fleet?.workers ?? [];
  const navigate = route.useNavigate();
  const { worker: chosen } = route.useSearch();
  const slots = workers.reduce((sum, worker) => sum + (worker.state === "stopped" ? 0 : worker.slots.length), 0);
  const there = present(workers);
  const stopped = there < workers.length ? `, ${workers.length - there} stopped` : "";
  return (
    <Panel
      title="Fleet"
      note={workers.length > 0 ? `${counted(there, "worker")}${stopped}, ${counted(slots, wordsOf(run.kind).slot)}` : undefined}
      aside={
        <>
          <FleetChip fleet={fleet} />
          {!isOver(run.status) && <FleetSize run={run} workers={workers} />}
        </>
      }
    >
      {workers.length === 0 ? (
        <NoWorkers run={run} />
      ) : (
        <Workers
          run={run}
          workers={workers}
          chosen={chosen}
          onOpen={(index, isOpen) =>
            void navigate({
              search: ({ worker }) => ({ worker: isOpen ? index : worker === index ? undefined : worker }),
              replace: true,
              resetScroll: false,
            })
          }
        />
      )}
    </Panel>
  );
}

/** The data flow of a run and its bottleneck, its workers, their resources over time, and recordings of episodes. */
export function FleetTab() {
  const { run } = useRun();
  const fleet = useRunPart("fleet");
  const diagnosis = useDiagnosis();
  return (
    <Panels>
      {!isOver(run.status) && <DataFlow run={run} diagnosis={diagnosis} />}
      <FleetTable fleet={fleet} run={run} />
      {run.kind !== "outside" && <Resources run={run} />}
      {/* Language runs have no frames to record. */}
      {run.kind === "fleet" && <Recordings run={run} workers={fleet?.workers ?? []} />}
    </Panels>
  );
}
