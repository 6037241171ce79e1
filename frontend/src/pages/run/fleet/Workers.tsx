import { ActionIcon, Button, Group, VisuallyHidden } from "@mantine/core";
import { useEffect, useState } from "react";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import type { RunDetail, SlotReport, WorkerRow } from "@/api/types";
import { StateChip } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { ReasonDialog } from "@/components/Dialog";
import { Age, Hint } from "@/components/inline";
import { Lanes } from "@/components/Lanes";
import { bytes, count, number, percent, policyStep, visible } from "@/format";
import { useCordonWorker, useRestartWorker } from "@/pages/run/fleet/api";
import { withoutTime } from "@/pages/run/logs/levels";
import runCss from "@/pages/run/run.module.css";
import { type Words, wordsOf } from "@/runs/words";
import { isOver, WORKER_PROOF_SECONDS } from "@/theme/chips";
import css from "./fleet.module.css";

/** Rows are paginated, so that the browser lays out only those shown. */
const PAGE = 100;

const CORDONS: Record<Exclude<WorkerRow["cordon"], "" | undefined>, string> = {
  requested: "◷ requested: drain and cordon",
  draining: "◕ draining, then cordoned",
  out: "✓ cordoned",
  lifting: "◷ requested: uncordon",
};

function State({ worker }: { worker: WorkerRow }) {
  const { cordon } = worker;
  return (
    <>
      <StateChip
        state={cordon === "out" ? "cordoned" : worker.state}
        provenAt={worker.heartbeat_at}
        allowedSeconds={WORKER_PROOF_SECONDS}
        reason={worker.reason}
      />
      {cordon && (
        <div className="small soft anywhere" role="status" data-cordon={cordon}>
          {CORDONS[cordon]}
          {worker.cordoned_at && (
            <>
              {" "}
              by {visible(worker.cordoned_by ?? "")} <Age at={worker.cordoned_at} suffix=" ago" />
            </>
          )}
          {worker.cordon_reason && `: ${visible(worker.cordon_reason)}`}
        </div>
      )}
      {worker.last_log && (
        <div className={css.lastLog} data-last-log title={visible(worker.last_log)}>
          {visible(withoutTime(worker.last_log))}
        </div>
      )}
    </>
  );
}

function Versions({ worker }: { worker: WorkerRow }) {
  const superseded = worker.transfers.superseded ?? 0;
  const left = superseded ? ` ${number(superseded)} were superseded before loading.` : "";
  return (
    <Hint label={`Weights versions: announced to, received by and active in this worker.${left}`}>
      <span>
        {policyStep(worker.announced_step)} <span className="faint">›</span> {policyStep(worker.staged_step)}{" "}
        <span className="faint">›</span> <b>{policyStep(worker.active_step)}</b>
      </span>
    </Hint>
  );
}

const share = (part: number | null) => percent(part === null ? null : part / 100);

function columnsOf(words: Words, hasGpu: boolean): (Column<WorkerRow> | false)[] {
  return [
    { label: "Worker", cell: ({ index }) => <b>{index}</b>, value: ({ index }) => index },
    { label: "State · newest log line", cell: (worker) => <State worker={worker} />, value: ({ state }) => state },
    { label: "pid", className: "soft", isNumber: true, cell: ({ pid }) => pid ?? "–" },
    { label: `${words.work}/s`, isNumber: true, value: (worker) => worker.env_steps_per_second },
    {
      ...{ label: "Weights: announced › staged › active", isNumber: true, value: (worker) => worker.active_step },
      cell: (worker) => <Versions worker={worker} />,
    },
    { label: "Unsent", title: `${words.envelopes} waiting to be sent`, isNumber: true, value: ({ to_send }) => to_send },
    { label: "Restarts", isNumber: true, value: ({ restarts }) => restarts },
    {
      ...{ label: "CPU", title: "Of one core, including env processes", isNumber: true },
      ...{ value: (worker) => worker.cpu_percent, cell: (worker) => share(worker.cpu_percent) },
    },
    {
      ...{ label: "Memory", title: "Resident, including env processes", isNumber: true },
      ...{ value: (worker) => worker.memory_bytes, cell: (worker) => bytes(worker.memory_bytes) },
    },
    hasGpu && {
      ...{ label: "GPU", title: "Utilization of the worker's device, including other users", isNumber: true },
      value: (worker) => worker.gpu_percent,
      cell: (worker) => (
        <span data-gpu>
          {share(worker.gpu_percent)} <span className="faint">· {bytes(worker.gpu_memory_bytes)}</span>
        </span>
      ),
    },
  ];
}

function Slots({ slots, words, onLog }: { slots: SlotReport[]; words: Words; onLog: (slot: number) => void }) {
  if (slots.length === 0) return <p className="faint small">No {words.slots} reported yet.</p>;
  return (
    <ul className={runCss.slots} aria-label={words.slots}>
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

/** The passages of each stage: their time, and the mean and the 95th percentile of one. */
function Stages({ stages }: { stages: WorkerRow["stages"] }) {
  const named = Object.entries(stages);
  if (named.length === 0) return null;
  const most = Math.max(...named.map(([, timing]) => timing.mean_ms * timing.count), 1e-9);
  return (
    <Lanes
      label="Time by stage"
      lanes={named.map(([name, timing]) => ({
        key: name,
        label: visible(name).replaceAll("_", " "),
        segments: [{ key: name, width: (timing.mean_ms * timing.count) / most, fill: "var(--chart-1)" }],
        aside: `${number(timing.mean_ms)} ms, 95th percentile ${number(timing.p95_ms)} ms`,
      }))}
    />
  );
}

type Verb = "replace" | "drain" | "uncordon";
type Action = { title: string; submit: string; help: string; does: string };

/** The actions on one worker, by verb. */
const ACTIONS: Record<Verb, Action> = {
  replace: {
    ...{ title: "Replace worker", submit: "Replace", help: "Stop it and start a new worker in its place." },
    does: "The worker exits and a new one starts with the newest weights. Finished fragments are sent; steps of incomplete fragments are lost and counted. Other workers continue.",
  },
  drain: {
    ...{ title: "Drain and cordon worker", submit: "Drain", help: "Finish its current work, exit, and keep its place free." },
    does: "The worker starts no new work, finishes and sends its current work, and exits. It is not replaced: the fleet has one worker less until it is uncordoned. Other workers continue.",
  },
  uncordon: {
    ...{ title: "Uncordon worker", submit: "Uncordon", help: "Start a new worker in its place." },
    does: "A new worker starts in its place with the newest weights. If the old worker is still draining, it exits first.",
  },
};

function verbsOf({ state, cordon, is_to_restart }: WorkerRow): Verb[] {
  const isHeld = cordon === "requested" || cordon === "draining" || cordon === "out";
  if (isHeld) return ["uncordon"];
  const isGone = state === "stopped";
  return [
    ...(isGone || cordon || is_to_restart || state === "respawning" ? [] : ["replace" as const]),
    ...(isGone ? [] : ["drain" as const]),
  ];
}

/** Replace, drain or uncordon one worker; shows a requested replacement while the old worker is present. */
function WorkerActions({ run, worker }: { run: RunDetail; worker: WorkerRow }) {
  const mayOperate = useMayOperate();
  // The action of the dialog; a report may change the state meanwhile.
  const [open, setOpen] = useState<Verb | null>(null);
  const restart = useRestartWorker(run.name);
  const cordon = useCordonWorker(run.name);
  const { index, incarnation } = worker;
  const close = () => setOpen(null);
  const submit = (reason: string) => {
    const order = { worker: index, incarnation, reason };
    if (open === "replace") restart.mutate(order, { onSuccess: close });
    else cordon.mutate({ ...order, lifts: open === "uncordon" }, { onSuccess: close });
  };
  if (isOver(run.status)) return null;
  return (
    <Group gap="xs" mt="sm">
      {worker.is_to_restart && (
        <p className="small soft" role="status">
          <span aria-hidden="true">◷</span> replacement requested; this worker is still running
        </p>
      )}
      {verbsOf(worker).map((verb) => (
        <Hint key={verb} label={mayOperate ? ACTIONS[verb].help : TAKES_OPERATOR}>
          <Button size="compact-xs" variant="default" disabled={!mayOperate} onClick={() => setOpen(verb)}>
            {ACTIONS[verb].submit} worker {index}
          </Button>
        </Hint>
      ))}
      {open && (
        <ReasonDialog
          title={`${ACTIONS[open].title} ${index}`}
          asking={open === "replace" ? restart : cordon}
          refused={open === "replace" ? "Worker not replaced" : "Worker not changed"}
          recordedIn="Shown beside the worker and recorded in the run's events."
          submit={ACTIONS[open].submit}
          onSubmit={submit}
          onClose={close}
        >
          <p>{ACTIONS[open].does}</p>
        </ReasonDialog>
      )}
    </Group>
  );
}

type Props = {
  run: RunDetail;
  workers: WorkerRow[];
  /** Named in the URL, which leads here. */
  chosen: number | undefined;
  onLog: (worker: number, slot: number | null) => void;
  /** A row was expanded or collapsed. */
  onOpen: (worker: number, isOpen: boolean) => void;
};

/** Workers as rows: the chosen one first, then those that do not run, then by index. */
export function Workers({ run, workers, chosen, onLog, onOpen }: Props) {
  const [first] = useState(chosen);
  const [open, setOpen] = useState<readonly number[]>(chosen === undefined ? [] : [chosen]);
  const rank = ({ index, state }: WorkerRow) => (index === first ? 0 : state === "running" ? 2 : state === "stopped" ? 3 : 1);
  const words = wordsOf(run.kind);
  useEffect(() => {
    if (first !== undefined) document.querySelector(`tr[data-worker="${first}"]`)?.scrollIntoView({ block: "center" });
  }, [first]);
  const toggle = (index: number) => {
    const isOpen = !open.includes(index);
    setOpen(isOpen ? [...open, index] : open.filter((each) => each !== index));
    onOpen(index, isOpen);
  };
  const columns: (Column<WorkerRow> | false)[] = [
    {
      ...{ id: "open", label: <VisuallyHidden>Open</VisuallyHidden>, className: runCss.expander },
      cell: ({ index }) => (
        <ActionIcon
          variant="subtle"
          color="gray"
          aria-expanded={open.includes(index)}
          aria-label={`Slots of worker ${index}`}
          onClick={() => toggle(index)}
        >
          <span aria-hidden="true">{open.includes(index) ? "▾" : "▸"}</span>
        </ActionIcon>
      ),
    },
    ...columnsOf(
      words,
      workers.some((worker) => worker.gpu_percent !== null),
    ),
    {
      ...{ id: "log", label: <VisuallyHidden>Log</VisuallyHidden> },
      cell: ({ index }) => (
        <Button size="compact-xs" variant="subtle" color="gray" aria-label={`Log of worker ${index}`} onClick={() => onLog(index, null)}>
          Log
        </Button>
      ),
    },
  ];
  return (
    <DataTable
      label="Workers of the fleet"
      role="group"
      rows={workers.toSorted((one, other) => rank(one) - rank(other) || one.index - other.index)}
      columns={columns}
      keyOf={({ index }) => index}
      page={PAGE}
      attributes={({ index, env_steps }) => ({
        "data-worker": index,
        "data-env-steps": env_steps,
        "aria-current": index === chosen ? "true" : undefined,
      })}
      below={(worker) =>
        open.includes(worker.index) && (
          <tr>
            <td />
            <td colSpan={columns.filter(Boolean).length - 1}>
              {worker.time_use && <p className="soft small anywhere">{visible(worker.time_use)}</p>}
              <Slots slots={worker.slots} words={words} onLog={(slot) => onLog(worker.index, slot)} />
              <Stages stages={worker.stages} />
              <WorkerActions run={run} worker={worker} />
            </td>
          </tr>
        )
      }
    />
  );
}
