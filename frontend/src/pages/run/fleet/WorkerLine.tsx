import { ActionIcon, Button, Tooltip } from "@mantine/core";
import { Fragment, useEffect, useRef, useState } from "react";
import type { RunDetail, SlotReport, WorkerRow } from "@/api/types";
import { StateChip } from "@/components/StateChip";
import { bytes, count, number, percent, policyStep, visible } from "@/format";
import { CordonState } from "@/pages/run/fleet/CordonState";
import { WorkerActions } from "@/pages/run/fleet/WorkerActions";
import { withoutTime } from "@/pages/run/logs/levels";
import type { Words } from "@/pages/run/words";
import { WORKER_PROOF_SECONDS } from "@/theme/chips";
import css from "./fleet.module.css";

export type Opens = { onLog: (slot: number | null) => void };

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
      <caption>Time by stage</caption>
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
            <span className="unseen">Share of time</span>
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
  return versions ? ` ${number(versions)} were superseded before loading.` : "";
}

function Versions({ worker }: { worker: WorkerRow }) {
  return (
    <Tooltip label={`Weights versions: announced to, received by and active in this worker.${superseded(worker)}`}>
      <span>
        {policyStep(worker.announced_step)} <span className="faint">›</span> {policyStep(worker.staged_step)}{" "}
        <span className="faint">›</span> <b>{policyStep(worker.active_step)}</b>
      </span>
    </Tooltip>
  );
}

type LineProps = {
  run: RunDetail;
  worker: WorkerRow;
  words: Words;
  hasGpu: boolean;
  /** Named in the URL, which leads here. */
  isChosen: boolean;
  onOpen: (isOpen: boolean) => void;
} & Opens;

/** One worker: heartbeat, activity and weights; expanded, its slots and actions. */
export function WorkerLine({ run, worker, words, hasGpu, isChosen, onLog, onOpen }: LineProps) {
  const [open, setOpen] = useState(isChosen);
  const line = useRef<HTMLTableRowElement>(null);
  // A row that the user has expanded is on screen already.
  const isOwn = useRef(false);
  useEffect(() => {
    if (isChosen && !isOwn.current) line.current?.scrollIntoView({ block: "center" });
    isOwn.current = false;
  }, [isChosen]);
  const toggle = () => {
    isOwn.current = !open;
    setOpen(!open);
    onOpen(!open);
  };
  return (
    <Fragment>
      <tr ref={line} data-worker={worker.index} data-env-steps={worker.env_steps} aria-current={isChosen ? "true" : undefined}>
        <td className="expander">
          <ActionIcon variant="subtle" color="gray" aria-expanded={open} aria-label={`Slots of worker ${worker.index}`} onClick={toggle}>
            <span aria-hidden="true">{open ? "▾" : "▸"}</span>
          </ActionIcon>
        </td>
        <td>
          <b>{worker.index}</b>
        </td>
        <td>
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
            <WorkerActions run={run} worker={worker} />
          </td>
        </tr>
      )}
    </Fragment>
  );
}
