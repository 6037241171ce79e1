import { Button } from "@mantine/core";
import type { RunDetail, SlotReport, WorkerRow } from "@/api/types";
import { Lanes } from "@/components/Lanes";
import { StateChip } from "@/components/StateChip";
import { count, number, visible } from "@/format";
import { WorkerActions } from "@/pages/run/fleet/WorkerActions";
import runCss from "@/pages/run/run.module.css";
import type { Words } from "@/runs/words";

type Opens = { onLog: (slot: number | null) => void };

function Slots({ slots, words, onLog }: { slots: SlotReport[]; words: Words } & Opens) {
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

/** The expanded part of a worker: time use, slots, stages and actions. */
export function WorkerDetails({ run, worker, words, onLog }: { run: RunDetail; worker: WorkerRow; words: Words } & Opens) {
  return (
    <>
      {worker.time_use && <p className="soft small anywhere">{visible(worker.time_use)}</p>}
      <Slots slots={worker.slots} words={words} onLog={onLog} />
      <Stages stages={worker.stages} />
      <WorkerActions run={run} worker={worker} />
    </>
  );
}
