import { Code, Group, SegmentedControl, Space } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, memo, useEffect, useRef, useState } from "react";
import { type SequenceSummary, type SequenceWindow, WINDOW_TOKENS, windowQuery } from "@/api/groups";
import { ErrorState } from "@/components/panels";
import { finePercent, number } from "@/format";
import { CHANNELS, type Channel, LABELS, LEGEND, lookOf, neighbour, tokenText } from "@/pages/viewer/channels";
import styles from "@/pages/viewer/tokens.module.css";
import { Neighbours } from "@/pages/viewer/ViewerLayout";

/** Tokens per chunk: a balance between render time and the number of chunks. */
const CHUNK = 256;
const ROUGH_CHUNK_PX = 260;
const BORDERS_PX = 2;

type Props = {
  run: string;
  group: number;
  sequence: SequenceSummary;
  channel: Channel;
  token: number | undefined;
  onChannel: (channel: Channel) => void;
  onToken: (token: number) => void;
};

const placeUnder = (target: EventTarget): number | null => {
  const found = target instanceof Element ? target.closest<HTMLElement>("[data-token]") : null;
  return found ? Number(found.dataset.token) : null;
};

/** The tokens of a sequence; only visible chunks are fetched and rendered. */
export function Tokens({ run, group, sequence, channel, token, onChannel, onToken }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const selected = token === undefined ? null : Math.min(token, Math.max(0, sequence.tokens - 1));
  const chunks = Math.ceil(sequence.tokens / CHUNK);
  const virtual = useVirtualizer({
    count: chunks,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROUGH_CHUNK_PX,
    overscan: 1,
  });
  const items = virtual.getVirtualItems();
  const starts = [...new Set(items.map((item) => Math.floor((item.index * CHUNK) / WINDOW_TOKENS) * WINDOW_TOKENS))];
  const asked = useQueries({ queries: starts.map((start) => windowQuery(run, group, sequence.index, start)) });
  const windows = new Map<number, SequenceWindow>();
  asked.forEach(({ data }) => {
    if (data) windows.set(data.start, data);
  });
  const windowAt = (place: number) => windows.get(Math.floor(place / WINDOW_TOKENS) * WINDOW_TOKENS);
  const failed = asked.find((each) => each.isError);

  // Scroll to the token from the URL: first its chunk, then the token once rendered.
  const brought = useRef<number | null>(null);
  const isThere = selected !== null && windowAt(selected) !== undefined;
  useEffect(() => {
    if (selected === null || brought.current === selected) return;
    const frame = scroller.current;
    const element = frame?.querySelector(`[data-token="${selected}"]`);
    if (frame && element) {
      // A link leads to the list, which may be below the screen.
      if (brought.current === null) frame.scrollIntoView({ block: "center" });
      brought.current = selected;
      // Scroll only the token list, not the page.
      const middle = frame.getBoundingClientRect().top + frame.clientHeight / 2;
      frame.scrollTop += element.getBoundingClientRect().top - middle;
    } else virtual.scrollToIndex(Math.floor(selected / CHUNK), { align: "center" });
  }, [selected, isThere, virtual, items.length, items[0]?.index]);

  const surprising = (direction: 1 | -1) => {
    const next = neighbour(sequence.surprises, selected ?? -1, direction);
    return next === null ? undefined : () => onToken(next);
  };
  const move = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    onToken(Math.min(sequence.tokens - 1, Math.max(0, (selected ?? -1) + by)));
  };
  const choose = (place: number | null) => {
    if (place === null) return;
    brought.current = place;
    onToken(place);
  };
  const shown = hovered ?? selected;
  return (
    <>
      <Group gap="sm" mb="xs">
        <SegmentedControl
          size="xs"
          aria-label="Colour tokens by"
          value={channel}
          onChange={(value) => onChannel(value as Channel)}
          data={CHANNELS.map((value) => ({ value, label: LABELS[value] }))}
        />
        <Group component="ul" gap="xs" m={0} p={0} className="tiny soft" aria-label="Legend">
          {LEGEND[channel].map(([values, meaning]) => (
            <Group component="li" gap={5} key={meaning}>
              <span style={lookOf(values, channel)} aria-hidden="true">
                ab
              </span>
              {meaning}
            </Group>
          ))}
        </Group>
        <Space flex={1} />
        <Neighbours
          ways={[
            ["Previous surprise", "p", surprising(-1)],
            [`Next of ${number(sequence.surprises.length)}`, "n", surprising(1)],
          ]}
        />
      </Group>
      {failed && <ErrorState title="Some tokens are unavailable" error={failed.error} onRetry={() => void failed.refetch()} />}
      <div
        ref={scroller}
        className={styles.scroller}
        style={{ height: `min(${virtual.getTotalSize() + BORDERS_PX}px, 62vh, 44rem)` }}
        tabIndex={0}
        role="region"
        aria-label={`Tokens of sequence ${sequence.index}, ${sequence.tokens}`}
        onMouseOver={(event) => setHovered(placeUnder(event.target))}
        onMouseLeave={() => setHovered(null)}
        onClick={(event) => choose(placeUnder(event.target))}
        onKeyDown={move}
      >
        <div className={styles.sheet} style={{ height: virtual.getTotalSize() }}>
          {items.map((item) => {
            const from = item.index * CHUNK;
            const to = Math.min(from + CHUNK, sequence.tokens);
            const window = windowAt(from);
            return (
              <div
                key={item.key}
                ref={virtual.measureElement}
                data-index={item.index}
                className={styles.chunk}
                style={{ transform: `translateY(${item.start}px)`, minHeight: window ? undefined : ROUGH_CHUNK_PX }}
              >
                <span className={styles.ruler} aria-hidden="true">
                  {number(from)}
                </span>
                <div className={styles.flow}>
                  {window ? (
                    <Spans
                      window={window}
                      from={from}
                      to={to}
                      channel={channel}
                      selected={selected !== null && selected >= from && selected < to ? selected : null}
                    />
                  ) : (
                    <span className="faint tiny">…</span>
                  )}
                </div>
              </div>
            );
          })}
        </div>
      </div>
      <TokenCard place={shown} total={sequence.tokens} window={shown === null ? undefined : windowAt(shown)} />
    </>
  );
}

type SpansProps = {
  window: SequenceWindow;
  /** Positions in the sequence: start, and end (exclusive). */
  from: number;
  to: number;
  channel: Channel;
  selected: number | null;
};

/** The display form of a token: its text, or its id if it has none. */
function shownText(window: SequenceWindow, at: number): string {
  if (!window.text) return `${window.tokens[at]}`;
  return tokenText(window.text[at] ?? "") || `\u27e8${window.tokens[at]}\u27e9`;
}

/** Consecutive tokens in the colours of a channel; bars mark the ends of trained spans. */
const Spans = memo(function Spans({ window, from, to, channel, selected }: SpansProps) {
  const spans = [];
  for (let place = from; place < to; place += 1) {
    const at = place - window.start;
    const isOwn = window.is_own[at] ?? false;
    const values = { isOwn, logprob: window.logprobs?.[at] ?? null, advantage: window.advantages?.[at] ?? null };
    const isBoundary = at > 0 && window.is_own[at - 1] !== isOwn;
    spans.push(
      <span
        key={place}
        data-token={place}
        data-selected={place === selected || undefined}
        data-boundary={isBoundary || undefined}
        className={window.text ? styles.token : `${styles.token} ${styles.number}`}
        style={lookOf(values, channel)}
      >
        {shownText(window, at)}
      </span>,
    );
  }
  return spans;
});

function likelihood(logprob: number): string {
  const part = Math.exp(logprob);
  return part >= 0.001 ? finePercent(part) : `1 in ${number(Math.round(1 / part))}`;
}

type CardProps = { place: number | null; total: number; window: SequenceWindow | undefined };

/** Details of the hovered token, else of the selected one. */
function TokenCard({ place, total, window }: CardProps) {
  if (place === null || !window) {
    return <p className="faint small">Hover over a token, or select one; ← and → move the selection. {number(total)} tokens.</p>;
  }
  const at = place - window.start;
  const logprob = window.logprobs?.[at] ?? null;
  const figures: [string, number | null | undefined, string?][] = [
    ["logprob", logprob, logprob === null ? "" : likelihood(logprob)],
    ["reference", window.ref_logprobs?.[at]],
    ["advantage", window.advantages?.[at]],
  ];
  return (
    <Group gap="0.2rem 1.2rem" mt="xs" className="small">
      <span>
        token <b>{number(place)}</b> <span className="faint">of {number(total)}</span>
      </span>
      <span>
        id <b className="mono">{window.tokens[at]}</b>
      </span>
      {window.text && <Code className="anywhere">{tokenText(window.text[at] ?? "").trimEnd() || "no text"}</Code>}
      <span>{window.is_own[at] ? "trained on" : "not trained on"}</span>
      {figures.map(
        ([name, value, note]) =>
          value != null && (
            <span key={name}>
              {name} <b>{number(value)}</b> <span className="faint">{note}</span>
            </span>
          ),
      )}
    </Group>
  );
}
