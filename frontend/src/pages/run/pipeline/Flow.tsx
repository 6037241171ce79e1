import { Link } from "@tanstack/react-router";
import type { Pipeline, PipelineStage, StageName } from "@/api/pipeline";
import type { RunDetail } from "@/api/types";
import { Panel } from "@/components/Panel";
import { ExportTrace } from "@/pages/run/pipeline/ExportTrace";
import styles from "@/pages/run/pipeline/pipeline.module.css";
import { heldText, limitText, lookOf, rateText, shareText, stillText, waitText } from "@/pages/run/pipeline/stages";

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

type StageProps = { run: RunDetail; stage: PipelineStage; pipeline: Pipeline; isSlowest: boolean };

function Stage({ run, stage, pipeline, isSlowest }: StageProps) {
  const { title, does, to } = lookOf(stage.name, run.kind);
  const { amount, unit: per } = rateText(stage.rate, stage.unit);
  return (
    <li className={styles.stage} data-stage={stage.name} data-slowest={isSlowest || undefined}>
      <div className={styles.top}>
        <Link to={to} params={{ name: run.name }} title={does}>
          {title}
        </Link>
        {isSlowest && <span className={styles.mark}>▲ bottleneck</span>}
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

/** The data flow through the run, from generation to training. */
export function Flow({ run, pipeline, slowest }: { run: RunDetail; pipeline: Pipeline; slowest: StageName | null }) {
  const isOutside = run.kind === "outside";
  return (
    <Panel title="Data flow" note="last minute" aside={<ExportTrace />} className="span-12">
      <ol className={styles.flow} aria-label="Stages in the order of the data flow">
        {isOutside && (
          <li className={styles.stage} data-stage="elsewhere">
            <div className={styles.top}>External environments</div>
            <div className={styles.low}>Data is generated outside this server: only pushes and later stages are measured.</div>
          </li>
        )}
        {pipeline.stages.map((stage) => (
          <Stage key={stage.name} run={run} stage={stage} pipeline={pipeline} isSlowest={stage.name === slowest} />
        ))}
      </ol>
    </Panel>
  );
}
