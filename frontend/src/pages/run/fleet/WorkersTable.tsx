import { Button } from "@mantine/core";
import { useState } from "react";
import type { RunDetail, WorkerRow } from "@/api/types";
import { number, visible } from "@/format";
import type { WorkerHealth } from "@/pages/run/fleet/health";
import { WorkerLine } from "@/pages/run/fleet/WorkerLine";
import type { Words } from "@/pages/run/words";
import css from "./fleet.module.css";

/** Rows are paginated, so that the browser lays out only those shown. */
const PAGE = 100;

type Props = {
  run: RunDetail;
  workers: WorkerRow[];
  /** Shown first, with the reason; null if none stands out. */
  worst: WorkerHealth | null;
  words: Words;
  chosen: number | undefined;
  onLog: (worker: number, slot: number | null) => void;
  /** A row was expanded or collapsed. */
  onOpen: (worker: number, isOpen: boolean) => void;
};

function Heads({ words, hasGpu }: { words: Words; hasGpu: boolean }) {
  const heads: [text: string, title?: string][] = [
    ["pid"],
    [`${words.work}/s`],
    ["Weights: announced › staged › active"],
    ["Unsent", `${words.envelopes} waiting to be sent`],
    ["Restarts"],
    ["CPU", "Of one core, including env processes"],
    ["Memory", "Resident, including env processes"],
  ];
  if (hasGpu) heads.push(["GPU", "Utilization of the worker's device, including other users"]);
  return (
    <thead>
      <tr>
        <th scope="col">
          <span className="unseen">Open</span>
        </th>
        <th scope="col">Worker</th>
        <th scope="col">State · newest log line</th>
        {heads.map(([text, title]) => (
          <th key={text} scope="col" className="num" title={title}>
            {text}
          </th>
        ))}
        <th scope="col">
          <span className="unseen">Log</span>
        </th>
      </tr>
    </thead>
  );
}

/** Workers as rows: the worst first, then by index. */
export function WorkersTable({ run, workers, worst, words, chosen, onLog, onOpen }: Props) {
  const [most, setMost] = useState(PAGE);
  const hasGpu = workers.some((worker) => worker.gpu_percent !== null);
  const others = workers.filter(({ index }) => index !== worst?.worker.index);
  const shown = others.filter(({ index }, at) => at < most || index === chosen);
  const line = (worker: WorkerRow) => (
    <WorkerLine
      key={worker.index}
      run={run}
      worker={worker}
      words={words}
      hasGpu={hasGpu}
      isChosen={worker.index === chosen}
      onLog={(slot) => onLog(worker.index, slot)}
      onOpen={(isOpen) => onOpen(worker.index, isOpen)}
    />
  );
  return (
    <>
      <div className="table-scroll" tabIndex={0} role="group" aria-label="Workers of the fleet">
        <table className="table">
          <Heads words={words} hasGpu={hasGpu} />
          <tbody>
            {worst && (
              <tr className={css.worst} data-worst={worst.worker.index}>
                <td />
                <td colSpan={hasGpu ? 11 : 10} className="small">
                  <span className={`tone-${worst.tone} ${css.sign}`} aria-hidden="true">
                    {worst.sign}
                  </span>{" "}
                  <b>Worker {worst.worker.index} is the worst:</b> <span className="anywhere">{visible(worst.why)}</span>
                </td>
              </tr>
            )}
            {/* One list: a row keeps its expanded state when it becomes the worst. */}
            {(worst ? [worst.worker, ...shown] : shown).map(line)}
          </tbody>
        </table>
      </div>
      {shown.length < others.length && (
        <div className="table-foot">
          <Button size="compact-sm" variant="default" onClick={() => setMost(most + PAGE)}>
            Show {number(Math.min(PAGE, others.length - shown.length))} more of {number(workers.length)}
          </Button>
        </div>
      )}
    </>
  );
}
