import { ActionIcon, Button, Tooltip } from "@mantine/core";
import { useSearch } from "@tanstack/react-router";
import { Fragment, lazy, Suspense, useEffect, useRef, useState } from "react";
import type { FleetPlace } from "@/api/fleet";
import type { Verdict } from "@/api/pipeline";
import type { FleetPart, RunDetail, SlotReport, WorkerRow } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { Panel } from "@/components/Panel";
import { StateChip } from "@/components/StateChip";
import { bytes, count, number, percent, policyStep, visible } from "@/format";
import { FleetSize } from "@/pages/run/fleet/FleetSize";
import { present } from "@/pages/run/fleet/resizing";
import { WorkerRestart } from "@/pages/run/fleet/WorkerRestart";
import { environmentCommand, trainerCommand, type Words, wordsOf } from "@/pages/run/words";
import { VerdictLine } from "@/pages/run/verdict/Verdict";
import { FLEET_START_SECONDS, WORKER_PROOF_SECONDS } from "@/theme/chips";

const LogsDrawer = lazy(() => import("@/pages/run/logs/LogsDrawer"));

const ENDED = new Set(["stopped", "completed", "failed"]);

type Opens = { onLog: (slot: number | null) => void };

function Slots({ slots, words, onLog }: { slots: SlotReport[]; words: Words } & Opens) {
  if (slots.length === 0) return <p className="faint small">No {words.slots} reported yet.</p>;
  return (
    <ul className="slots" aria-label={words.slots}>
      {slots.map((slot) => (
        <li key={slot.slot}>
          <StateChip state={slot.state} reason={slot.error} />
          <span className="small">
            slot {slot.slot}
            <span className="faint">
              {" "}
              · {count(slot.episodes)} episodes{slot.pid ? ` · pid ${slot.pid}` : ""}
              {slot.restarts > 0 ? ` · ${slot.restarts} restarts` : ""}
            </span>
          </span>
          <Button size="compact-xs" variant="subtle" color="gray" aria-label={`Log of slot ${slot.slot}`} onClick={() => onLog(slot.slot)}>
            Log
          </Button>
        </li>
      ))}
    </ul>
  );
}

function Stages({ stages }: { stages: WorkerRow["stages"] }) {
  const named = Object.entries(stages);
  if (named.length === 0) return null;
  const most = Math.max(...named.map(([, timing]) => timing.mean_ms * timing.count), 1e-9);
  return (
    <table className="table stages">
      <caption>Where its time goes</caption>
      <thead>
        <tr>
          <th scope="col">Stage</th>
          <th scope="col" className="num">
            mean ms
          </th>
          <th scope="col" className="num">
            p95 ms
          </th>
          <th scope="col" className="wide-only">
            <span className="unseen">Share of the time</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {named.map(([name, timing]) => (
          <tr key={name}>
            <td>{visible(name).replaceAll("_", " ")}</td>
            <td className="num">{number(timing.mean_ms)}</td>
            <td className="num">{number(timing.p95_ms)}</td>
            <td className="wide-only">
              <span className="share" style={{ width: `${(100 * timing.mean_ms * timing.count) / most}%` }} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function superseded(worker: WorkerRow): string {
  const versions = worker.transfers.superseded ?? 0;
  return versions ? ` ${number(versions)} were overtaken by newer ones.` : "";
}

function Versions({ worker }: { worker: WorkerRow }) {
  return (
    <Tooltip label={`Weights this worker was told of, has received, and acts with.${superseded(worker)}`}>
      <span>
        {policyStep(worker.announced_step)} <span className="faint">›</span> {policyStep(worker.staged_step)}{" "}
        <span className="faint">›</span> <b>{policyStep(worker.active_step)}</b>
      </span>
    </Tooltip>
  );
}

type LineProps = { run: RunDetail; worker: WorkerRow; words: Words; hasGpu: boolean; isChosen: boolean } & Opens;

function WorkerLine({ run, worker, words, hasGpu, isChosen, onLog }: LineProps) {
  const [open, setOpen] = useState(isChosen);
  const line = useRef<HTMLTableRowElement>(null);
  useEffect(() => {
    if (isChosen) line.current?.scrollIntoView({ block: "center" });
  }, [isChosen]);
  return (
    <Fragment>
      <tr ref={line} data-worker={worker.index} data-env-steps={worker.env_steps} aria-current={isChosen ? "true" : undefined}>
        <td className="expander">
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-expanded={open}
            aria-label={`Slots of worker ${worker.index}`}
            onClick={() => setOpen(!open)}
          >
            <span aria-hidden="true">{open ? "▾" : "▸"}</span>
          </ActionIcon>
        </td>
        <td>
          <b>{worker.index}</b>
        </td>
        <td>
          <StateChip
            state={worker.state}
            provenAt={worker.heartbeat_at}
            allowedSeconds={WORKER_PROOF_SECONDS}
            reason={worker.reason}
          />
        </td>
        <td className="num soft">{worker.pid ?? "–"}</td>
        <td className="num">{number(worker.env_steps_per_second)}</td>
        <td className="num">
          <Versions worker={worker} />
        </td>
        <td className="num">{number(worker.to_send)}</td>
        <td className="num">{number(worker.restarts)}</td>
        <td className="num">{percent(worker.cpu_percent === null ? null : worker.cpu_percent / 100)}</td>
        <td className="num">{bytes(worker.memory_bytes)}</td>
        {hasGpu && (
          <td className="num" data-gpu>
            {percent(worker.gpu_percent === null ? null : worker.gpu_percent / 100)}{" "}
            <span className="faint">· {bytes(worker.gpu_memory_bytes)}</span>
          </td>
        )}
        <td>
          <Button size="compact-xs" variant="subtle" color="gray" aria-label={`Log of worker ${worker.index}`} onClick={() => onLog(null)}>
            Log
          </Button>
        </td>
      </tr>
      {open && (
        <tr>
          <td />
          <td colSpan={hasGpu ? 11 : 10}>
            {worker.time_use && <p className="soft small anywhere">{visible(worker.time_use)}</p>}
            <Slots slots={worker.slots} words={words} onLog={onLog} />
            <Stages stages={worker.stages} />
            {!ENDED.has(run.status) && <WorkerRestart run={run.name} worker={worker} />}
          </td>
        </tr>
      )}
    </Fragment>
  );
}

/** The fleet's own state: its manager's last report proves it. */
function FleetChip({ fleet }: { fleet: FleetPart | undefined }) {
  if (!fleet || fleet.observed === "none") return null;
  const allowed = fleet.observed === "starting" ? FLEET_START_SECONDS : WORKER_PROOF_SECONDS;
  return (
    <span data-fleet-state>
      <StateChip state={fleet.observed} provenAt={fleet.proven_at} allowedSeconds={allowed} reason={fleet.reason} />
    </span>
  );
}

function NoWorkers({ run }: { run: RunDetail }) {
  if (run.kind === "outside") {
    return (
      <EmptyState title="No fleet" command={environmentCommand(run.name, location.origin)} needs={{ scope: "env", run: run.name }}>
        The data of this run comes from environments that run elsewhere. Point an Atropos environment at this address.
      </EmptyState>
    );
  }
  if (ENDED.has(run.status)) {
    return <EmptyState title="No workers">The run is {run.status}, and its fleet is gone. Its history stays.</EmptyState>;
  }
  return (
    <EmptyState title="No workers yet" command={trainerCommand(run, location.origin)} needs={{ scope: "trainer", run: run.name }}>
      Workers appear when the fleet has started. They generate once a trainer has published its first weights.
    </EmptyState>
  );
}

/** Every worker: alive when, doing what, with which weights. */
export function FleetTable({ fleet, run, verdict }: { fleet: FleetPart | undefined; run: RunDetail; verdict: Verdict | undefined }) {
  const workers = fleet?.workers ?? [];
  const chosen = useSearch({ from: "/shell/runs/$name/fleet" }).worker;
  const [log, setLog] = useState<FleetPlace | null>(null);
  const slots = workers.reduce((sum, worker) => sum + (worker.state === "stopped" ? 0 : worker.slots.length), 0);
  const hasGpu = workers.some((worker) => worker.gpu_percent !== null);
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
              Manager's log
            </Button>
          )}
          {!ENDED.has(run.status) && <FleetSize run={run} workers={workers} />}
        </>
      }
      className="span-12"
    >
      <VerdictLine run={run.name} verdict={verdict} className="fleet-verdict" />
      {log && (
        <Suspense fallback={null}>
          <LogsDrawer run={run.name} workers={workers} place={log} onPlace={setLog} onClose={() => setLog(null)} />
        </Suspense>
      )}
      {workers.length === 0 ? (
        <NoWorkers run={run} />
      ) : (
        <div className="table-scroll" tabIndex={0} role="group" aria-label="Workers of the fleet">
          <table className="table">
            <thead>
              <tr>
                <th scope="col">
                  <span className="unseen">Open</span>
                </th>
                <th scope="col">Worker</th>
                <th scope="col">State · heartbeat</th>
                <th scope="col" className="num">
                  pid
                </th>
                <th scope="col" className="num">
                  {words.work}/s
                </th>
                <th scope="col" className="num">
                  Weights: told › staged › active
                </th>
                <th scope="col" className="num" title={`${words.parcels} waiting to be sent`}>
                  To send
                </th>
                <th scope="col" className="num">
                  Restarts
                </th>
                <th scope="col" className="num" title="Of one core, env processes included">
                  CPU
                </th>
                <th scope="col" className="num" title="Resident, env processes included">
                  Memory
                </th>
                {hasGpu && (
                  <th scope="col" className="num" title="Of the worker's device, whoever uses it">
                    GPU
                  </th>
                )}
                <th scope="col">
                  <span className="unseen">Log</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {workers.map((worker) => (
                <WorkerLine key={worker.index} run={run} worker={worker} words={words} hasGpu={hasGpu} isChosen={worker.index === chosen} onLog={(slot) => setLog({ worker: worker.index, slot })} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}
