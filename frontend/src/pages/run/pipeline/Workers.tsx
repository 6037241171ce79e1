import { Link } from "@tanstack/react-router";
import type { RunDetail, WorkerRow } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { Panel } from "@/components/Panel";
import { number, percent } from "@/format";
import styles from "@/pages/run/pipeline/pipeline.module.css";
import { barsOf, PARTS, partsOf, slowestFirst, waterfallOf } from "@/pages/run/pipeline/stages";
import { trainerCommand, wordsOf } from "@/pages/run/words";

function WorkerTime({ run, worker, work }: { run: RunDetail; worker: WorkerRow; work: string }) {
  const bars = barsOf(worker.shares);
  const words = bars.map(({ part, share }) => `${PARTS[part]} ${percent(share)}`).join(", ");
  return (
    <li>
      <Link to="/runs/$name/fleet" params={{ name: run.name }} search={{ worker: worker.index }}>
        worker {worker.index}
      </Link>
      <span className={styles.stack} role="img" aria-label={`Worker ${worker.index}: ${words}`} title={words}>
        {bars.map(({ part, width }) => (
          <span key={part} data-part={part} style={{ width: `${100 * width}%` }} />
        ))}
      </span>
      <span className={styles.speed}>
        {number(worker.env_steps_per_second)} {work}/s
      </span>
    </li>
  );
}

/** One bar per worker with its time by span; the gap is unaccounted time. */
export function WorkerTimes({ run, workers }: { run: RunDetail; workers: WorkerRow[] }) {
  const shown = slowestFirst(workers);
  const words = wordsOf(run.kind);
  return (
    <Panel
      title="Worker time"
      note={shown.length > 0 && shown.length < workers.length ? `slowest ${shown.length} of ${workers.length} workers` : "last minute"}
      className="span-12"
    >
      {shown.length === 0 ? (
        <EmptyState
          title="No worker timings yet"
          command={trainerCommand(run, location.origin)}
          needs={{ scope: "trainer", run: run.name }}
        >
          Workers include timings in every report. They start once a trainer has published weights.
        </EmptyState>
      ) : (
        <>
          <ul className={styles.workers} aria-label="Workers">
            {shown.map((worker) => (
              <WorkerTime key={worker.index} run={run} worker={worker} work={words.works} />
            ))}
          </ul>
          <ul className={`${styles.legend} small soft`} aria-label="Legend">
            {partsOf(shown).map((part) => (
              <li key={part}>
                <span className={styles.swatch} data-part={part} /> {PARTS[part]}
              </li>
            ))}
          </ul>
        </>
      )}
    </Panel>
  );
}

/** One env step by stage; absent if no worker steps environments. */
export function StepWaterfall({ workers }: { workers: WorkerRow[] }) {
  const { total, segments } = waterfallOf(workers);
  if (segments.length === 0) return null;
  return (
    <Panel title="Env step" note={`${number(total)} ms between observations, mean over workers`} className="span-12">
      <table className={`table ${styles.fall}`} aria-label="Stages of an env step">
        <thead>
          <tr>
            <th scope="col">Stage</th>
            <th scope="col">
              <span className="unseen">Timeline</span>
            </th>
            <th scope="col" className="num">
              Mean
            </th>
            <th scope="col" className="num wide-only">
              95th percentile
            </th>
          </tr>
        </thead>
        <tbody>
          {segments.map(({ part, from, width, mean, p95 }) => (
            <tr key={part}>
              <th scope="row">{PARTS[part]}</th>
              <td className={styles.track}>
                <span data-part={part} style={{ marginLeft: `${100 * from}%`, width: `${100 * width}%` }} />
              </td>
              <td className="num">{number(mean)} ms</td>
              <td className="num soft wide-only">{number(p95)} ms</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}
