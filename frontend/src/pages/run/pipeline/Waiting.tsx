import type { Pipeline } from "@/api/pipeline";
import type { RunDetail } from "@/api/types";
import { Panel } from "@/components/Panel";
import { duration, number, percent } from "@/format";
import styles from "@/pages/run/pipeline/pipeline.module.css";
import { limitText, rateText, trendText } from "@/pages/run/pipeline/stages";

function Pair({ who, at, words }: { who: string; at: number | null; words: string }) {
  return (
    <div className={styles.pair}>
      <div className={styles.pairTop}>
        <span>{who}</span>
        <b>{percent(at)}</b>
      </div>
      <span className={styles.meter} role="img" aria-label={`${who}: ${percent(at)}`}>
        <span className={styles.waiting} style={{ width: `${100 * (at ?? 0)}%` }} />
      </span>
      <span className="faint small">{words}</span>
    </div>
  );
}

/** Idle time on both sides of the queue: the waiting side is not the bottleneck. */
export function WhoWaits({ run, pipeline }: { run: RunDetail; pipeline: Pipeline }) {
  const { shares, workers } = pipeline;
  const train = pipeline.stages.find(({ name }) => name === "train");
  const isMeasured = Object.keys(shares).length > 0;
  const share = (name: string) => (isMeasured ? (shares[name] ?? 0) : null);
  return (
    <Panel title="Idle time" note="share of the last minute" className="span-6">
      {run.kind !== "outside" && (
        <>
          <Pair
            who="Workers held back"
            at={share("waiting_room")}
            words={workers > 0 ? `by ${limitText(run)}; mean of ${number(workers)} running` : "no running workers"}
          />
          <Pair who="Workers waiting for weights" at={share("waiting_weights")} words="until they use the newest version" />
        </>
      )}
      <Pair
        who="Trainer waiting for data"
        at={train?.waits ?? null}
        words={train?.waits == null ? "no trainer held a batch" : "from the acknowledgement of a batch to the delivery of the next"}
      />
    </Panel>
  );
}

function Rate({ rate, unit }: { rate: number | null; unit: string }) {
  const shown = rateText(rate, unit);
  return rate === null ? (
    <span className="faint">none in the last minute</span>
  ) : (
    <>
      <b>{shown.amount}</b> {shown.unit}
    </>
  );
}

/** Arrival rate, length and departure rate of the queue, related by Little's law. */
export function QueueLaw({ pipeline }: { pipeline: Pipeline }) {
  const { arriving, handed_out, queued, unit, age_seconds, pause_above } = pipeline;
  const stay = pipeline.stages.find(({ name }) => name === "queue")?.seconds ?? null;
  return (
    <Panel title="Queue" note="queued ÷ leased per second = time in the queue (Little's law)" className="span-6">
      <dl className={styles.law}>
        <div>
          <dt>Received</dt>
          <dd data-quantity="received">
            <Rate rate={arriving} unit={unit} />
          </dd>
        </div>
        <div>
          <dt>Queued</dt>
          <dd data-quantity="queue">
            <b>{number(queued)}</b> {unit}
            {pause_above !== null && <span className="faint"> of {number(pause_above)}</span>}
          </dd>
        </div>
        <div>
          <dt>Leased</dt>
          <dd data-quantity="leased">
            <Rate rate={handed_out} unit={unit} />
          </dd>
        </div>
        <div>
          <dt>Time in queue</dt>
          <dd data-stay>
            <b>{stay === null ? "–" : duration(stay)}</b>
            {age_seconds !== null && <span className="faint"> · measured {duration(age_seconds)}</span>}
          </dd>
        </div>
      </dl>
      <p className="soft small">{trendText(pipeline)}</p>
    </Panel>
  );
}
