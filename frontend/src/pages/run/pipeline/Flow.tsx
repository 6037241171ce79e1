import { Link } from "@tanstack/react-router";
import type { Diagnosis, Pipeline, PipelineStage } from "@/api/pipeline";
import type { RunDetail } from "@/api/types";
import { Panel } from "@/components/Panel";
import styles from "@/pages/run/pipeline/pipeline.module.css";
import { heldText, limitText, lookOf, markOf, rateText, shareText, stillText, trendText, waitText } from "@/pages/run/pipeline/stages";

function Meter({ stage, words }: { stage: PipelineStage; words: string }) {
  const { share, waits } = stage;
  if (share === null) return null;
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

type StageProps = {
  run: RunDetail;
  stage: PipelineStage;
  pipeline: Pipeline /** The mark of the stage that the diagnosis names; undefined at others. */;
  mark?: string;
};

function Stage({ run, stage, pipeline, mark }: StageProps) {
  const { title, does, to } = lookOf(stage.name, run.kind);
  const { amount, unit: per } = rateText(stage.rate, stage.unit);
  return (
    <li className={styles.stage} data-stage={stage.name} data-marked={mark}>
      <div className={styles.top}>
        <Link to={to} params={{ name: run.name }} title={does}>
          {title}
        </Link>
        {mark && <span className={styles.mark}>▲ {mark}</span>}
      </div>
      <div className={styles.rate}>
        {stage.rate !== null && <b>{amount}</b>}{" "}
        <span className={styles.per}>{stage.rate === null ? stillText(stage, pipeline.workers) : per}</span>
      </div>
      <div className={styles.share}>
        <Meter stage={stage} words={shareText(stage, pipeline)} />
      </div>
      <div className={styles.low}>{waitText(stage, limitText(run))}</div>
      <div className={styles.low}>{heldText(stage, pipeline.unit)}</div>
    </li>
  );
}

type FlowProps = { run: RunDetail; pipeline: Pipeline; diagnosis: Pick<Diagnosis, "kind" | "stage"> | null };

/** The data flow through the run, from generation to training. */
export function Flow({ run, pipeline, diagnosis }: FlowProps) {
  const isOutside = run.kind === "outside";
  return (
    <Panel title="Data flow" note="last minute; batches: two cycles of a slower trainer" className="span-12">
      <ol className={styles.flow} aria-label="Stages in the order of the data flow">
        {isOutside && (
          <li className={styles.stage} data-stage="elsewhere">
            <div className={styles.top}>External environments</div>
            <div className={styles.low}>Data is generated outside this server: only pushes and later stages are measured.</div>
          </li>
        )}
        {pipeline.stages.map((stage) => (
          <Stage
            key={stage.name}
            run={run}
            stage={stage}
            pipeline={pipeline}
            mark={diagnosis?.stage === stage.name ? markOf(diagnosis.kind) : undefined}
          />
        ))}
      </ol>
      <p className="soft small">{trendText(pipeline)}</p>
    </Panel>
  );
}
