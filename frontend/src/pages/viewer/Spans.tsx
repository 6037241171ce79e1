import { memo } from "react";
import type { SequenceWindow } from "@/api/groups";
import { type Channel, levelOf } from "@/pages/viewer/channels";
import styles from "@/pages/viewer/tokens.module.css";
import { tokenText } from "@/pages/viewer/tokenText";

type Props = {
  window: SequenceWindow;
  /** Positions in the sequence: start, and end (exclusive). */
  from: number;
  to: number;
  channel: Channel;
  selected: number | null;
  /** Extra CSS classes by position. */
  markOf?: (place: number) => string;
};

/** The display form of a token: its text, or its id if it has none. */
function shownText(window: SequenceWindow, at: number): string {
  if (!window.text) return `${window.tokens[at]}`;
  return tokenText(window.text[at] ?? "") || `\u27e8${window.tokens[at]}\u27e9`;
}

/** Consecutive tokens in the colours of a channel; bars mark the ends of trained spans. */
export const Spans = memo(function Spans({ window, from, to, channel, selected, markOf }: Props) {
  const spans = [];
  for (let place = from; place < to; place += 1) {
    const at = place - window.start;
    const isOwn = window.is_own[at] ?? false;
    const values = { isOwn, logprob: window.logprobs?.[at] ?? null, advantage: window.advantages?.[at] ?? null };
    const level = levelOf(values, channel);
    const isBoundary = at > 0 && window.is_own[at - 1] !== isOwn;
    const classes = [
      styles.token,
      level && styles[level],
      isBoundary && styles.boundary,
      window.text ? "" : styles.number,
      markOf?.(place),
    ];
    spans.push(
      <span key={place} data-token={place} data-selected={place === selected || undefined} className={classes.filter(Boolean).join(" ")}>
        {shownText(window, at)}
      </span>,
    );
  }
  return spans;
});
