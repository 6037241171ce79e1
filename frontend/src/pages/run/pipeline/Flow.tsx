import { Link } from "@tanstack/react-router";
import type { Pipeline, PipelineStage } from "@/api/pipeline";
import type { RunDetail } from "@/api/types";
import { Panel } from "@/components/Panel";
import { percent } from "@/format";
import styles from "@/pages/run/pipeline/pipeline.module.css";
import { heldText, lookOf, rateText, waitText } from "@/pages/run/pipeline/stages";

const SHARE_WORDS: Partial<Record<PipelineStage["name"], string>> = { queue: "of its tolerance filled", batch: "of the time under way" };

function Meter({ stage }: { stage: PipelineStage }) {
  const { share, waits } = stage;
  if (share === null) return <span className={styles.unmeasured}>not measured</span>;
  const words = `${percent(share)} ${SHARE_WORDS[stage.name] ?? "of the time at work"}`;
  return (
    <>
      <span className={styles.meter} role="img" aria-label={words}>
        <span className={styles.busy} style={{ width: `${100 * share}%` }} />
        {waits !== null && <span className={styles.idle} style={{ width: `${100 * Math.min(waits, 1 - share)}%` }} />}
      </span>
      <span>{words}</span>
    </>
  );
}

type StageProps = { run: RunDetail; stage: PipelineStage; unit: string; isSlowest: boolean };

function Stage({ run, stage, unit, isSlowest }: StageProps) {
  const { title, does, to } = lookOf(stage.name, run.kind);
  const { amount, unit: per } = rateText(stage.rate, stage.unit);
  // Nobody counts passes of inference: the steps beside it are the same ones.
  const isCounted = stage.rate !== null || stage.name !== "infer";
  return (
    <li className={styles.stage} data-stage={stage.name} data-slowest={isSlowest || undefined}>
      <div className={styles.top}>
        <Link to={to} params={{ name: run.name }} title={does}>{title}</Link>
        {isSlowest && <span className={styles.mark}>▲ holds it up</span>}
      </div>
      <div className={styles.rate}>
        {isCounted && <b>{amount}</b>} <span className={styles.per}>{isCounted ? per : "acts for every step"}</span>
      </div>
      <div className={styles.share}><Meter stage={stage} /></div>
      <div className={styles.low}>{waitText(stage)}</div>
      <div className={styles.low}>{heldText(stage, unit)}</div>
    </li>
  );
}

/** The way of data through the run, from where it is made to where it is trained on. */
export function Flow({ run, pipeline }: { run: RunDetail; pipeline: Pipeline }) {
  const isOutside = run.kind === "outside";
  return (
    <Panel title="From step to train step" note="the last minute" className="span-12">
      <ol className={styles.flow} aria-label="Stages, in the order in which data passes them">
        {isOutside && (
          <li className={styles.stage} data-stage="elsewhere">
            <div className={styles.top}>Environments elsewhere</div>
            <div className={styles.low}>What makes the data runs outside of the deck: it sees what is pushed, and what comes after.</div>
          </li>
        )}
        {pipeline.stages.map((stage) => (
          <Stage key={stage.name} run={run} stage={stage} unit={pipeline.unit} isSlowest={stage.name === pipeline.verdict.stage} />
        ))}
      </ol>
    </Panel>
  );
}
