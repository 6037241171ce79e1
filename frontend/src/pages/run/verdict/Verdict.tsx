import { Link } from "@tanstack/react-router";
import type { Verdict as Said } from "@/api/pipeline";
import { visible } from "@/format";
import styles from "@/pages/run/verdict/verdict.module.css";

function Proof({ proof }: Pick<Said, "proof">) {
  if (proof.length === 0) return null;
  return (
    <ul className={styles.proof} aria-label="The numbers behind it">
      {proof.map((each) => (
        <li key={each}>{visible(each)}</li>
      ))}
    </ul>
  );
}

/** What holds the run up, in one sentence; the numbers that prove it; what to do about it. */
export function Verdict({ verdict }: { verdict: Said }) {
  return (
    <section className={`panel ${styles.verdict}`} aria-label="Verdict" data-stage={verdict.stage ?? "none"}>
      <h2 className={styles.sentence}>{visible(verdict.sentence)}</h2>
      <Proof proof={verdict.proof} />
      {verdict.change && (
        <p className={styles.change}>
          <b>What to do</b> {visible(verdict.change)}
        </p>
      )}
    </section>
  );
}

type Props = { run: string; verdict: Said | undefined; className?: string };

/** The same where it is not the page's subject: the sentence, what to do, and the way to the numbers. */
export function VerdictLine({ run, verdict, className = "" }: Props) {
  return (
    <section className={`${styles.line} ${className}`} aria-label="Verdict" data-stage={verdict?.stage ?? "none"}>
      {verdict && (
        <>
          <p className={styles.said}>
            <b>{visible(verdict.sentence)}</b>{" "}
            <Link to="/runs/$name/pipeline" params={{ name: run }} className="nowrap">
              Why: the pipeline
            </Link>
          </p>
          {verdict.change && <p className={`small soft ${styles.said}`}>{visible(verdict.change)}</p>}
        </>
      )}
    </section>
  );
}
