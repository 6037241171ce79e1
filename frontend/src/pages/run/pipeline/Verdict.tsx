import type { Pipeline } from "@/api/pipeline";
import { visible } from "@/format";
import styles from "@/pages/run/pipeline/pipeline.module.css";

/** What holds the run up, in one sentence; the numbers that prove it; what would change it. */
export function Verdict({ verdict }: { verdict: Pipeline["verdict"] }) {
  return (
    <section className={`panel ${styles.verdict}`} aria-label="Verdict" data-stage={verdict.stage ?? "none"}>
      <h2 className={styles.sentence}>{visible(verdict.sentence)}</h2>
      {verdict.proof.length > 0 && (
        <ul className={styles.proof} aria-label="The numbers behind it">
          {verdict.proof.map((each) => (
            <li key={each}>{visible(each)}</li>
          ))}
        </ul>
      )}
      {verdict.change && (
        <p className={styles.change}>
          <b>What to change</b> {visible(verdict.change)}
        </p>
      )}
    </section>
  );
}
