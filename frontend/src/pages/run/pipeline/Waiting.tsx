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

/** Idle time on both sides of the queue: the side that waits is not the bottleneck. */
export function WhoWaits({ run, pipeline }: { run: RunDetail; pipeline: Pipeline }) {
  const { shares, workers } = pipeline;
  const train = pipeline.stages.find(({ name }) => name === "train");
  const isMeasured = Object.keys(shares).length > 0;
  const share = (name: string) => (isMeasured ? (shares[name] ?? 0) : null);
  return (
    <Panel title="Idle time" note="parts of the last minute" className="span-6">
      {run.kind !== "outside" && (
        <>
          <Pair
            who="Workers are held back"
            at={share("waiting_room")}
            words={workers > 0 ? `by ${limitText(run)}; mean of ${number(workers)} running` : "no worker is running"}
          />
          <Pair who="Workers wait for weights" at={share("waiting_weights")} words="for a version to act with, before the first one" />
        </>
      )}
      <Pair
        who="The trainer waits for data"
        at={train?.waits ?? null}
        words={train?.waits == null ? "no trainer had a batch" : "from the confirmation of one batch to the delivery of the next"}
      />
    </Panel>
  );
}

function Rate({ rate, unit }: { rate: number | null; unit: string }) {
  const said = rateText(rate, unit);
  return rate === null ? (
    <span className="faint">nothing in the last minute</span>
  ) : (
    <>
      <b>{said.amount}</b> {said.unit}
    </>
  );
}

/** What goes in, what is in it and what goes out: by Little's law one follows from the others. */
export function QueueLaw({ pipeline }: { pipeline: Pipeline }) {
  const { arriving, handed_out, queued, unit, age_seconds, pause_above } = pipeline;
  const stay = pipeline.stages.find(({ name }) => name === "queue")?.seconds ?? null;
  return (
    <Panel title="The queue" note="what is in it ÷ what goes out a second = how long each stays" className="span-6">
      <dl className={styles.law}>
        <div>
          <dt>Comes in</dt>
          <dd>
            <Rate rate={arriving} unit={unit} />
          </dd>
        </div>
        <div>
          <dt>Waits</dt>
          <dd>
            <b>{number(queued)}</b> {unit}
            {pause_above !== null && <span className="faint"> of {number(pause_above)}</span>}
          </dd>
        </div>
        <div>
          <dt>Goes out</dt>
          <dd>
            <Rate rate={handed_out} unit={unit} />
          </dd>
        </div>
        <div>
          <dt>Each stays</dt>
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
