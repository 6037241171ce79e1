import { Button } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { FleetPart, RunDetail } from "@/api/types";
import { StateChip } from "@/components/chips";
import { onDemand } from "@/components/onDemand";
import { EmptyState, Panel, Panels, rolldeckCommand } from "@/components/panels";
import type { FleetPlace } from "@/pages/run/fleet/api";
import { DataFlow } from "@/pages/run/fleet/DataFlow";
import { FleetSize, present } from "@/pages/run/fleet/FleetSize";
import { Recordings } from "@/pages/run/fleet/Recordings";
import { Resources } from "@/pages/run/fleet/Resources";
import { Workers } from "@/pages/run/fleet/Workers";
import { processOf, textOf } from "@/pages/run/logs/logAddress";
import { useRun } from "@/pages/run/RunContext";
import { environmentCommand, trainerCommand, wordsOf } from "@/runs/words";
import { FLEET_START_SECONDS, isOver, WORKER_PROOF_SECONDS } from "@/theme/chips";

const LogsDrawer = onDemand(() => import("@/pages/run/logs/LogsDrawer"), "default");
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
  if (run.kind === "outside") {
    return (
      <EmptyState
        title="No fleet"
        guide="howto/atropos"
        command={environmentCommand(run.name, location.origin)}
        needs={{ scope: "env", run: run.name }}
      >
        The data of this run comes from external environments. Connect an Atropos environment to this URL:
      </EmptyState>
    );
  }
  if (isOver(run.status)) {
    const command = run.allowed_verbs.includes("start") ? rolldeckCommand(`run start ${run.name}`) : undefined;
    const clone = (
      <Link to="/runs/new" search={{ from: run.name }}>
        Launch a clone
      </Link>
    );
    return (
      <EmptyState title="No workers" {...(command ? { command, needs: { scope: "user", run: run.name } as const } : { action: clone })}>
        The run is {run.status}, and its fleet has stopped. Its history remains available.
      </EmptyState>
    );
  }
  return (
    <EmptyState
      title="No workers yet"
      guide="start/trainer"
      command={trainerCommand(run, location.origin)}
      needs={{ scope: "trainer", run: run.name }}
    >
      Workers appear when the fleet has started. They generate data once a trainer has published its first weights.
    </EmptyState>
  );
}

/** All workers: heartbeat, activity and weights version. */
function FleetTable({ fleet, run }: { fleet: FleetPart | undefined; run: RunDetail }) {
  const workers = fleet?.workers ?? [];
  const navigate = route.useNavigate();
  const search = route.useSearch();
  const log = search.log === undefined ? null : processOf(search.log);
  const setLog = (place: FleetPlace | null) =>
    void navigate({ search: (old) => ({ ...old, log: place ? textOf(place) : undefined }), replace: true, resetScroll: false });
  const slots = workers.reduce((sum, worker) => sum + (worker.state === "stopped" ? 0 : worker.slots.length), 0);
  const words = wordsOf(run.kind);
  const there = present(workers);
  const word = there === 1 ? "worker" : "workers";
  const left = there < workers.length ? `, ${workers.length - there} stopped` : "";
  return (
    <Panel
      title="Fleet"
      note={workers.length > 0 ? `${there} ${word}${left}, ${slots} ${words.slots}` : undefined}
      aside={
        <>
          <FleetChip fleet={fleet} />
          {workers.length > 0 && (
            <Button size="compact-sm" variant="default" onClick={() => setLog({ worker: null, slot: null })}>
              Manager log
            </Button>
          )}
          {!isOver(run.status) && <FleetSize run={run} workers={workers} />}
        </>
      }
    >
      {log && <LogsDrawer run={run.name} workers={workers} place={log} onPlace={setLog} onClose={() => setLog(null)} />}
      {workers.length === 0 ? (
        <NoWorkers run={run} />
      ) : (
        <Workers
          run={run}
          workers={workers}
          chosen={search.worker}
          onLog={(worker, slot) => setLog({ worker, slot })}
          onOpen={(index, isOpen) =>
            void navigate({
              search: (old) => ({ ...old, worker: isOpen ? index : old.worker === index ? undefined : old.worker }),
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
  const { run, fleet, diagnosis } = useRun();
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
