import { StickyNote } from "lucide-react";
import type { MarkVocabulary } from "@/api/marks";
import { visible } from "@/format";
import { type Mark, markText } from "@/marks/marks";
import styles from "@/marks/marks.module.css";

/** The name of a label in a run; empty if it has none. */
export const nameIn = (words: MarkVocabulary | undefined) => (label: number) =>
  words?.labels.find((each) => each.label === label)?.name ?? "";

/** A label: its digit in its colour. */
export function LabelSign({ label }: { label: number }) {
  return (
    <span className={styles.sign} data-label={label} aria-hidden="true">
      {label}
    </span>
  );
}

/** The mark of a group in compact form, with text for screen readers. */
export function MarkBadge({ mark, words }: { mark: Mark | null; words: MarkVocabulary | undefined }) {
  if (!mark) return null;
  const text = visible(markText(mark, nameIn(words)));
  return (
    <span className={styles.badge} title={mark.note ? `${text}: ${visible(mark.note)}` : text}>
      {mark.label !== null && <LabelSign label={mark.label} />}
      {mark.note && <StickyNote size={14} aria-hidden="true" />}
      <span className="unseen">{text}</span>
    </span>
  );
}
