import type { SequenceWindow } from "@/api/groups";
import { Copy } from "@/components/Copying";
import { finePercent, number } from "@/format";
import styles from "@/pages/viewer/tokens.module.css";
import { tokenText } from "@/pages/viewer/tokenText";

function likelihood(logprob: number): string {
  const part = Math.exp(logprob);
  return part >= 0.001 ? finePercent(part) : `1 in ${number(Math.round(1 / part))}`;
}

type Props = {
  place: number | null;
  total: number;
  window: SequenceWindow | undefined;
  /** Link to this token, if it is selected. */
  link?: string;
};

/** Details of the hovered token, else of the selected one. */
export function TokenCard({ place, total, window, link }: Props) {
  if (place === null || !window) {
    return (
      <div className={styles.card}>
        <span className="faint">Hover over a token, or select one; ← and → move the selection. {number(total)} tokens.</span>
      </div>
    );
  }
  const at = place - window.start;
  const logprob = window.logprobs?.[at] ?? null;
  const reference = window.ref_logprobs?.[at] ?? null;
  const advantage = window.advantages?.[at] ?? null;
  return (
    <div className={styles.card}>
      <span>
        token <b>{number(place)}</b> <span className="faint">of {number(total)}</span>
      </span>
      <span>
        id <b className="mono">{window.tokens[at]}</b>
      </span>
      {window.text && <code className={styles.cardText}>{tokenText(window.text[at] ?? "").trimEnd() || "no text"}</code>}
      <span>{window.is_own[at] ? "trained on" : "not trained on"}</span>
      {logprob !== null && (
        <span>
          logprob <b>{number(logprob)}</b> <span className="faint">{likelihood(logprob)}</span>
        </span>
      )}
      {reference !== null && (
        <span>
          reference <b>{number(reference)}</b>
        </span>
      )}
      {advantage !== null && (
        <span>
          advantage <b>{number(advantage)}</b>
        </span>
      )}
      {link && <Copy text={link} words="Copy link" label="Copy link to this token" />}
    </div>
  );
}
