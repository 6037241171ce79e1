import { Link } from "@tanstack/react-router";
import type { Verdict as Said } from "@/api/pipeline";
import { visible } from "@/format";
import styles from "@/pages/run/verdict/verdict.module.css";

function Proof({ proof }: Pick<Said, "proof">) {
  if (proof.length === 0) return null;
  return (
    <ul className={styles.proof} aria-label="Evidence">
      {proof.map((each) => (
        <li key={each}>{visible(each)}</li>
      ))}
    </ul>
  );
}

/** The diagnosis in one sentence, its evidence, and the recommended action. */
export function Verdict({ verdict }: { verdict: Said }) {
  return (
    <section className={`panel ${styles.verdict}`} aria-label="Diagnosis" data-stage={verdict.stage ?? "none"}>
      <h2 className={styles.sentence}>{visible(verdict.sentence)}</h2>
      <Proof proof={verdict.proof} />
      {verdict.change && (
        <p className={styles.change}>
          <b>Recommended action</b> {visible(verdict.change)}
        </p>
      )}
    </section>
  );
}

type Props = { run: string; verdict: Said | undefined; className?: string };

/** A short form for other pages: the diagnosis, the action, and a link to the evidence. */
export function VerdictLine({ run, verdict, className = "" }: Props) {
  return (
    <section className={`${styles.line} ${className}`} aria-label="Diagnosis" data-stage={verdict?.stage ?? "none"}>
      {verdict && (
        <>
          <p className={styles.said}>
            <b>{visible(verdict.sentence)}</b>{" "}
            <Link to="/runs/$name/pipeline" params={{ name: run }} className="nowrap">
              View pipeline
            </Link>
          </p>
          {verdict.change && <p className={`small soft ${styles.said}`}>{visible(verdict.change)}</p>}
        </>
      )}
    </section>
  );
}
