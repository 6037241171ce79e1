import type { SequenceSummary } from "@/api/groups";
import { count, number } from "@/format";
import styles from "@/pages/viewer/viewer.module.css";

type Props = { sequences: SequenceSummary[]; shown: number; onShow: (index: number) => void };

/** Ranks of the sequences by score, best first; equal scores share a rank. */
function ranks(scores: (number | null)[]): number[] {
  return scores.map((score) => 1 + scores.filter((other) => (other ?? -Infinity) > (score ?? -Infinity)).length);
}

function signed(value: number): string {
  return `${value > 0 ? "+" : ""}${number(value).replace("-", "\u2212")}`;
}

/** The sequences of a group, to select one. */
export function SequenceStrip({ sequences, shown, onShow }: Props) {
  const places = ranks(sequences.map((sequence) => sequence.score));
  return (
    <div className={styles.strip} role="group" aria-label="Sequences">
      {sequences.map((sequence, index) => (
        <button key={sequence.index} type="button" aria-pressed={index === shown} onClick={() => onShow(index)}>
          <span className={styles.stripTop}>
            <span className="faint">Sequence {sequence.index}</span>
            <span title="Score">
              <span className="faint">score</span> <b>{number(sequence.score)}</b>
            </span>
            <span className="faint" title="Rank by score, best first">
              rank {places[index]}
            </span>
          </span>
          <span className={styles.stripLow}>
            {count(sequence.tokens)} tokens
            {sequence.advantage !== null && <span title="Mean advantage"> · advantage {signed(sequence.advantage)}</span>}
            {sequence.zero_advantage && (
              <span className="held" title="The environment sets its advantage to 0">
                {" "}
                · advantage set to 0
              </span>
            )}
            {sequence.temperature !== null && (
              <span title="Temperature of its sampling"> · temperature {number(sequence.temperature)}</span>
            )}
            {sequence.is_truncated && <span className="held"> · truncated</span>}
            {sequence.is_correct !== null && (
              <span>
                {" "}
                · <span aria-hidden="true">{sequence.is_correct ? "✓" : "✗"}</span> {sequence.is_correct ? "correct" : "incorrect"}
              </span>
            )}
            {sequence.duplicate_of !== null && (
              <span className="held" title="It has the same tokens">
                {" "}
                · same as sequence {sequence.duplicate_of}
              </span>
            )}
          </span>
        </button>
      ))}
    </div>
  );
}
