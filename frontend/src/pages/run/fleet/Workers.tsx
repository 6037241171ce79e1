import { ActionIcon, Button, Group, SimpleGrid, VisuallyHidden } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import type { RunDetail, WorkerRow } from "@/api/types";
import { StateChip } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { ReasonDialog } from "@/components/Dialog";
import { Age, Hint } from "@/components/inline";
import { bytes, counted, percent, policyStep, visible } from "@/format";
import { useWorkerOrder, type WorkerVerb } from "@/pages/run/fleet/api";
import { withoutTime } from "@/pages/run/logs/levels";
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

const share = (part: number | null) => percent(part === null ? null : part / 100);

function columnsOf(words: Words, hasGpu: boolean): (Column<WorkerRow> | false)[] {
  return [
    { label: "Worker", cell: ({ index }) => <b>{index}</b>, value: ({ index }) => index },
    { label: "State · newest log line", cell: (worker) => <State worker={worker} />, value: ({ state }) => state },
    { label: "pid", className: "soft", isNumber: true, cell: ({ pid }) => pid ?? "–" },
    { label: `${words.work}/s`, isNumber: true, value: (worker) => worker.env_steps_per_second },
    {
      label: "Weights",
      title: "Active version, after the announced one if the worker has yet to load it",
      isNumber: true,
      value: (worker) => worker.active_step,
      cell: ({ active_step, announced_step }) => (
        <>
          {announced_step !== active_step && <span className="faint">{policyStep(announced_step)} › </span>}
          <b>{policyStep(active_step)}</b>
        </>
      ),
    },
    { label: "Unsent", title: `${words.envelopes} waiting to be sent`, isNumber: true, value: ({ to_send }) => to_send },
    { label: "Restarts", isNumber: true, value: ({ restarts }) => restarts },
    {
      label: "CPU",
      title: "Of one core, including env processes",
      isNumber: true,
      value: (worker) => worker.cpu_percent,
      cell: (worker) => share(worker.cpu_percent),
    },
    {
      label: "Memory",
      title: "Resident, including env processes",
      isNumber: true,
      value: (worker) => worker.memory_bytes,
      cell: (worker) => bytes(worker.memory_bytes),
    },
    hasGpu && {
      label: "GPU",
      title: "Utilization of the worker's device, including other users",
      isNumber: true,
      value: (worker) => worker.gpu_percent,
      cell: (worker) => (
        <span data-gpu>
          {share(worker.gpu_percent)} <span className="faint">· {bytes(worker.gpu_memory_bytes)}</span>
        </span>
      ),
    },
  ];
}

type SlotsProps = { run: string; worker: WorkerRow; words: Words };

function Slots({ run, worker: { index, slots }, words }: SlotsProps) {
  if (slots.length === 0) return <p className="faint small">No {words.slot} reported yet.</p>;
  return (
    <SimpleGrid component="ul" cols={{ base: 1, md: 2, lg: 3 }} spacing="xs" m={0} mb="sm" p={0} aria-label="Slots">
      {slots.map(({ slot, state, error, episodes, pid, restarts }) => (
        <Group key={slot} component="li" gap="xs" wrap="nowrap">
          <StateChip state={state} reason={error} />
          <span className="small">
            slot {slot}
            <span className="faint">
              {` · ${counted(episodes, "episode")}`}
              {pid ? ` · pid ${pid}` : ""}
              {restarts > 0 ? ` · ${counted(restarts, "restart")}` : ""}
            </span>
          </span>
          <LogLink run={run} log={`${index}.${slot}`} label={`Log of slot ${slot}`} />
        </Group>
      ))}
    </SimpleGrid>
  );
}

/** Link to the log of a worker or of one of its slots. */
function LogLink({ run, log, label }: { run: string; log: string; label: string }) {
  return (
    <Link to="/runs/$name/logs" params={{ name: run }} search={{ log }} className="small" aria-label={label}>
      Log
    </Link>
  );
}

type Action = { title: string; submit: string; does: string };

/** The actions on one worker, by verb. */
const ACTIONS: Record<WorkerVerb, Action> = {
  replace: {
    title: "Replace worker",
    submit: "Replace",
    does: "The worker exits and a new one starts with the newest weights. Finished fragments are sent; steps of incomplete fragments are lost and counted. Other workers continue.",
  },
  drain: {
    title: "Drain and cordon worker",
    submit: "Drain",
    does: "The worker starts no new work, finishes and sends its current work, and exits. It is not replaced: the fleet has one worker less until it is uncordoned. Other workers continue.",
  },
  uncordon: {
    title: "Uncordon worker",
    submit: "Uncordon",
    does: "A new worker starts in its place with the newest weights. If the old worker is still draining, it exits first.",
  },
};

function verbsOf({ state, cordon, is_to_restart }: WorkerRow): WorkerVerb[] {
  if (cordon && cordon !== "lifting") return ["uncordon"];
  if (state === "stopped") return [];
  return cordon || is_to_restart || state === "respawning" ? ["drain"] : ["replace", "drain"];
}

/** Replace, drain or uncordon one worker; shows a requested replacement while the old worker is present. */
function WorkerActions({ run, worker }: { run: RunDetail; worker: WorkerRow }) {
  const mayOperate = useMayOperate();
  // The action of the dialog; a report may change the state meanwhile.
  const [open, setOpen] = useState<WorkerVerb | null>(null);
  const order = useWorkerOrder(run.name);
  const { index, incarnation } = worker;
  const close = () => setOpen(null);
  if (isOver(run.status)) return null;
  return (
    <Group gap="xs" mt="sm">
      {worker.is_to_restart && (
        <p className="small soft" role="status">
          <span aria-hidden="true">◷</span> replacement requested; this worker is still running
        </p>
      )}
      {verbsOf(worker).map((verb) => (
        <Hint key={verb} label={mayOperate ? ACTIONS[verb].does : TAKES_OPERATOR}>
          <Button size="compact-xs" variant="default" disabled={!mayOperate} onClick={() => setOpen(verb)}>
            {ACTIONS[verb].submit} worker {index}
          </Button>
        </Hint>
      ))}
      {open && (
        <ReasonDialog
          title={`${ACTIONS[open].title} ${index}`}
          asking={order}
          refused="Worker not changed"
          recordedIn="Shown beside the worker and recorded in the run's events."
          submit={ACTIONS[open].submit}
          onSubmit={(reason) => order.mutate({ verb: open, worker: index, incarnation, reason }, { onSuccess: close })}
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
  /** A row was expanded or collapsed. */
  onOpen: (worker: number, isOpen: boolean) => void;
};

/** Workers as rows: the chosen one first, then those that do not run, then by index. */
export function Workers({ run, workers, chosen, onOpen }: Props) {
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
      id: "open",
      label: <VisuallyHidden>Open</VisuallyHidden>,
      className: css.expander,
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
      id: "log",
      label: <VisuallyHidden>Log</VisuallyHidden>,
      cell: ({ index }) => <LogLink run={run.name} log={String(index)} label={`Log of worker ${index}`} />,
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
              <Slots run={run.name} worker={worker} words={words} />
              <WorkerActions run={run} worker={worker} />
            </td>
          </tr>
        )
      }
    />
  );
}
