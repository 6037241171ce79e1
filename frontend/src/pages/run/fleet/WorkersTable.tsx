import { ActionIcon, Button } from "@mantine/core";
import { useEffect, useState } from "react";
import type { RunDetail, WorkerRow } from "@/api/types";
import { type Column, DataTable } from "@/components/DataTable";
import { Hint } from "@/components/Hint";
import { StateChip } from "@/components/StateChip";
import { bytes, number, percent, policyStep, visible } from "@/format";
import { CordonState } from "@/pages/run/fleet/CordonState";
import type { WorkerHealth } from "@/pages/run/fleet/health";
import { WorkerDetails } from "@/pages/run/fleet/WorkerDetails";
import { withoutTime } from "@/pages/run/logs/levels";
import runCss from "@/pages/run/run.module.css";
import type { Words } from "@/runs/words";
import { WORKER_PROOF_SECONDS } from "@/theme/chips";
import css from "./fleet.module.css";

/** Rows are paginated, so that the browser lays out only those shown. */
const PAGE = 100;

type Props = {
  run: RunDetail;
  workers: WorkerRow[];
  /** Named above the table, and shown first; null if none stands out. */
  worst: WorkerHealth | null;
  words: Words;
  /** Named in the URL, which leads here. */
  chosen: number | undefined;
  onLog: (worker: number, slot: number | null) => void;
  /** A row was expanded or collapsed. */
  onOpen: (worker: number, isOpen: boolean) => void;
};

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

function State({ worker }: { worker: WorkerRow }) {
  return (
    <>
      <StateChip
        state={worker.cordon === "out" ? "cordoned" : worker.state}
        provenAt={worker.heartbeat_at}
        allowedSeconds={WORKER_PROOF_SECONDS}
        reason={worker.reason}
      />
      <CordonState worker={worker} />
      {worker.last_log && (
        <div className={css.lastLog} data-last-log title={visible(worker.last_log)}>
          {visible(withoutTime(worker.last_log))}
        </div>
      )}
    </>
  );
}

const share = (part: number | null) => percent(part === null ? null : part / 100);

function columnsOf(words: Words): Column<WorkerRow>[] {
  return [
    { id: "worker", label: "Worker", cell: ({ index }) => <b>{index}</b>, value: ({ index }) => index },
    { id: "state", label: "State · newest log line", cell: (worker) => <State worker={worker} />, value: ({ state }) => state },
    { id: "pid", label: "pid", className: "num soft", cell: ({ pid }) => pid ?? "–" },
    {
      ...{ id: "rate", label: `${words.work}/s`, className: "num" },
      cell: (worker) => number(worker.env_steps_per_second),
      value: (worker) => worker.env_steps_per_second,
    },
    {
      ...{ id: "weights", label: "Weights: announced › staged › active", className: "num" },
      cell: (worker) => <Versions worker={worker} />,
      value: (worker) => worker.active_step,
    },
    {
      ...{ id: "unsent", label: "Unsent", title: `${words.envelopes} waiting to be sent`, className: "num" },
      cell: (worker) => number(worker.to_send),
      value: (worker) => worker.to_send,
    },
    {
      ...{ id: "restarts", label: "Restarts", className: "num" },
      cell: (worker) => number(worker.restarts),
      value: (worker) => worker.restarts,
    },
    {
      ...{ id: "cpu", label: "CPU", title: "Of one core, including env processes", className: "num" },
      cell: (worker) => share(worker.cpu_percent),
      value: (worker) => worker.cpu_percent,
    },
    {
      ...{ id: "memory", label: "Memory", title: "Resident, including env processes", className: "num" },
      cell: (worker) => bytes(worker.memory_bytes),
      value: (worker) => worker.memory_bytes,
    },
  ];
}

const GPU: Column<WorkerRow> = {
  ...{ id: "gpu", label: "GPU", title: "Utilization of the worker's device, including other users", className: "num" },
  cell: (worker) => (
    <span data-gpu>
      {share(worker.gpu_percent)} <span className="faint">· {bytes(worker.gpu_memory_bytes)}</span>
    </span>
  ),
  value: (worker) => worker.gpu_percent,
};

/** Workers as rows: the worst first, then by index. */
export function WorkersTable({ run, workers, worst, words, chosen, onLog, onOpen }: Props) {
  const [first] = useState(chosen);
  const [open, setOpen] = useState<readonly number[]>(chosen === undefined ? [] : [chosen]);
  const front = new Set([worst?.worker.index, first]);
  const rows = [...workers.filter(({ index }) => front.has(index)), ...workers.filter(({ index }) => !front.has(index))];
  useEffect(() => {
    if (first !== undefined) document.querySelector(`tr[data-worker="${first}"]`)?.scrollIntoView({ block: "center" });
  }, [first]);
  const toggle = (index: number) => {
    const isOpen = !open.includes(index);
    setOpen(isOpen ? [...open, index] : open.filter((each) => each !== index));
    onOpen(index, isOpen);
  };
  const hasGpu = workers.some((worker) => worker.gpu_percent !== null);
  const columns: Column<WorkerRow>[] = [
    {
      ...{ id: "open", label: <span className="unseen">Open</span>, className: runCss.expander },
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
    ...columnsOf(words),
    ...(hasGpu ? [GPU] : []),
    {
      ...{ id: "log", label: <span className="unseen">Log</span> },
      cell: ({ index }) => (
        <Button size="compact-xs" variant="subtle" color="gray" aria-label={`Log of worker ${index}`} onClick={() => onLog(index, null)}>
          Log
        </Button>
      ),
    },
  ];
  return (
    <>
      {worst && (
        <p className="small" data-worst={worst.worker.index}>
          <span className={`tone-${worst.tone} ${css.sign}`} aria-hidden="true">
            {worst.sign}
          </span>{" "}
          <b>Worker {worst.worker.index} is the worst:</b> <span className="anywhere">{visible(worst.why)}</span>
        </p>
      )}
      <DataTable
        label="Workers of the fleet"
        role="group"
        rows={rows}
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
              <td colSpan={columns.length - 1}>
                <WorkerDetails run={run} worker={worker} words={words} onLog={(slot) => onLog(worker.index, slot)} />
              </td>
            </tr>
          )
        }
      />
    </>
  );
}
