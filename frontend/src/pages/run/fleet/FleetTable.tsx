import { Button } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useRef } from "react";
import type { Diagnosis } from "@/api/pipeline";
import type { FleetPart, RunDetail, WorkerRow } from "@/api/types";
import { rolldeckCommand } from "@/components/commandToken";
import { EmptyState } from "@/components/EmptyState";
import { useNow } from "@/components/now";
import { onDemand } from "@/components/onDemand";
import { Panel } from "@/components/Panel";
import { StateChip } from "@/components/StateChip";
import { DiagnosisLine } from "@/diagnosis/Diagnosis";
import type { FleetPlace } from "@/pages/run/fleet/api";
import { FleetSize } from "@/pages/run/fleet/FleetSize";
import { workerHealth, worstOf } from "@/pages/run/fleet/health";
import { present } from "@/pages/run/fleet/resizing";
import { WorkersTable } from "@/pages/run/fleet/WorkersTable";
import { processOf, textOf } from "@/pages/run/logs/logAddress";
import logCss from "@/pages/run/logs/logs.module.css";
import { environmentCommand, trainerCommand, wordsOf } from "@/runs/words";
import { FLEET_START_SECONDS, WORKER_PROOF_SECONDS } from "@/theme/chips";

const LogsDrawer = onDemand(() => import("@/pages/run/logs/LogsDrawer"), "default");
const route = getRouteApi("/shell/runs/$name/fleet");

const ENDED = new Set(["stopped", "completed", "failed"]);

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
  if (ENDED.has(run.status)) {
    const told = `The run is ${run.status}, and its fleet has stopped. Its history remains available.`;
    if (run.allowed_verbs.includes("start")) {
      return (
        <EmptyState title="No workers" command={rolldeckCommand(`run start ${run.name}`)} needs={{ scope: "user", run: run.name }}>
          {told}
        </EmptyState>
      );
    }
    return (
      <EmptyState
        title="No workers"
        action={
          <Link to="/runs/new" search={{ from: run.name }}>
            Launch a clone
          </Link>
        }
      >
        {told}
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

type MembersProps = { run: RunDetail; workers: WorkerRow[]; onLog: (worker: number, slot: number | null) => void };

/** Workers as rows, the worst first. */
function Members({ run, workers, onLog }: MembersProps) {
  const chosen = route.useSearch().worker;
  const navigate = route.useNavigate();
  const now = useNow();
  const found = useMemo(() => workerHealth(workers, now), [workers, now]);
  const pinned = useRef<number | null>(null);
  const worst = worstOf(found, pinned.current);
  pinned.current = worst?.worker.index ?? null;
  const words = wordsOf(run.kind);
  const onOpen = (index: number, isOpen: boolean) =>
    void navigate({
      search: (old) => ({ ...old, worker: isOpen ? index : old.worker === index ? undefined : old.worker }),
      replace: true,
      resetScroll: false,
    });
  return <WorkersTable run={run} words={words} workers={workers} worst={worst} chosen={chosen} onLog={onLog} onOpen={onOpen} />;
}

/** All workers: heartbeat, activity and weights version. */
export function FleetTable({ fleet, run, diagnosis }: { fleet: FleetPart | undefined; run: RunDetail; diagnosis: Diagnosis | undefined }) {
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
          {!ENDED.has(run.status) && <FleetSize run={run} workers={workers} />}
        </>
      }
      className="span-12"
    >
      <DiagnosisLine run={run.name} diagnosis={diagnosis} className={logCss.fleetDiagnosis} />
      {log && <LogsDrawer run={run.name} workers={workers} place={log} onPlace={setLog} onClose={() => setLog(null)} />}
      {workers.length === 0 ? (
        <NoWorkers run={run} />
      ) : (
        <Members run={run} workers={workers} onLog={(worker, slot) => setLog({ worker, slot })} />
      )}
    </Panel>
  );
}
