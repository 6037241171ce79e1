import { Panel } from "@/components/Panel";
import { TokenCommand } from "@/components/TokenCommand";
import { visible } from "@/format";
import { nextSteps, type StartStep, startSteps } from "@/pages/run/overview/startSteps";
import { useRun } from "@/pages/run/RunContext";
import styles from "./start.module.css";

function Step({ step, isNext }: { step: StartStep; isNext: boolean }) {
  return (
    <li className={styles.step} data-done={step.isDone} aria-current={isNext ? "step" : undefined}>
      <span className={styles.mark} role="img" aria-label={step.isDone ? "Done" : "Open"}>
        {step.isDone ? "✓" : "○"}
      </span>
      <div className={styles.body}>
        <b>{visible(step.title)}</b> <span className="soft small">{visible(step.note)}</span>
        {isNext && step.command && <TokenCommand command={step.command} needs={step.needs} />}
      </div>
    </li>
  );
}

/** Next steps after a launch, until the first batch is trained. */
export function StartCard() {
  const { run, fleet, ledger } = useRun();
  const steps = startSteps({ run, fleet, ledger }, location.origin);
  if (steps.length === 0) return null;
  const next = nextSteps(steps);
  return (
    <Panel
      title="Start training"
      note={`${steps.filter((step) => step.isDone).length} of ${steps.length} steps done`}
      className={styles.card}
    >
      <ol className={styles.steps}>
        {steps.map((step) => (
          <Step key={step.title} step={step} isNext={next.includes(step)} />
        ))}
      </ol>
    </Panel>
  );
}
