import { Link } from "@tanstack/react-router";
import type { Diagnosis as RunDiagnosis } from "@/api/pipeline";
import { Age } from "@/components/Age";
import { Outdated } from "@/components/Outage";
import styles from "@/diagnosis/diagnosis.module.css";
import { counted, visible } from "@/format";

function Evidence({ evidence }: Pick<RunDiagnosis, "evidence">) {
  if (evidence.length === 0) return null;
  return (
    <ul className={styles.evidence} aria-label="Evidence">
      {evidence.map((each) => (
        <li key={each}>{visible(each)}</li>
      ))}
    </ul>
  );
}

/** The most harmful cause in one sentence, its evidence and the recommended action, and further causes. */
export function Diagnosis({ diagnosis }: { diagnosis: RunDiagnosis }) {
  return (
    <section className={`panel ${styles.diagnosis}`} aria-label="Diagnosis" data-stage={diagnosis.stage ?? "none"}>
      <h2 className={styles.summary}>{visible(diagnosis.summary)}</h2>
      <Outdated />
      {diagnosis.since && (
        <p className={`small soft ${styles.since}`}>
          For <Age at={diagnosis.since} />
        </p>
      )}
      <Evidence evidence={diagnosis.evidence} />
      {diagnosis.change && (
        <p className={styles.change}>
          <b>Recommended action</b> {visible(diagnosis.change)}
        </p>
      )}
      {diagnosis.further.length > 0 && (
        <ul className={styles.further} aria-label="Further causes">
          {diagnosis.further.map((cause) => (
            <li key={cause.kind}>
              <b>{visible(cause.summary)}</b> {visible(cause.change)}
              <Evidence evidence={cause.evidence} />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

type Props = { run: string; diagnosis: RunDiagnosis | undefined; className?: string };

/** A short form for other pages: the diagnosis, the action, and a link to the evidence. */
export function DiagnosisLine({ run, diagnosis, className = "" }: Props) {
  return (
    <section className={`${styles.line} ${className}`} aria-label="Diagnosis" data-stage={diagnosis?.stage ?? "none"}>
      {diagnosis && (
        <>
          <p className={styles.said}>
            <Outdated />
            <span className={styles.cause} title={visible(diagnosis.summary)}>
              {visible(diagnosis.summary)}
            </span>{" "}
            {diagnosis.further.length > 0 && <span className="soft">{counted(diagnosis.further.length, "further cause")} </span>}
            <Link to="/runs/$name/pipeline" params={{ name: run }} className="nowrap">
              View pipeline
            </Link>
          </p>
          {diagnosis.change && (
            <p className={`small soft ${styles.said}`}>
              <span title={visible(diagnosis.change)}>{visible(diagnosis.change)}</span>
            </p>
          )}
        </>
      )}
    </section>
  );
}
