import { Button } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type MouseEvent, useEffect, useRef, useState } from "react";
import { type SequenceSummary, type SequenceWindow, WINDOW_TOKENS, windowQuery } from "@/api/groups";
import { ErrorState } from "@/components/ErrorState";
import { KeyHint } from "@/components/KeyHint";
import { number } from "@/format";
import { neighbour } from "@/pages/viewer/alignment";
import { ChannelPicker } from "@/pages/viewer/ChannelPicker";
import type { Channel } from "@/pages/viewer/channels";
import { Spans } from "@/pages/viewer/Spans";
import { TokenCard } from "@/pages/viewer/TokenCard";
import styles from "@/pages/viewer/tokens.module.css";
import { viewLink } from "@/share/link";
import { useShortcuts } from "@/shell/keyboard";

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
  const router = useRouter();
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

  // A link leads to the list, which may be below the screen.
  const isLinked = useRef(token !== undefined);
  useEffect(() => {
    if (isLinked.current) scroller.current?.scrollIntoView({ block: "center" });
    isLinked.current = false;
  }, []);

  // Scroll to the token from the URL: first its chunk, then the token once rendered.
  const brought = useRef<number | null>(null);
  const isThere = selected !== null && windowAt(selected) !== undefined;
  useEffect(() => {
    if (selected === null || brought.current === selected) return;
    const frame = scroller.current;
    const element = frame?.querySelector(`[data-token="${selected}"]`);
    if (frame && element) {
      brought.current = selected;
      // Scroll only the token list, not the page.
      const middle = frame.getBoundingClientRect().top + frame.clientHeight / 2;
      frame.scrollTop += element.getBoundingClientRect().top - middle;
    } else virtual.scrollToIndex(Math.floor(selected / CHUNK), { align: "center" });
  }, [selected, isThere, virtual, items.length, items[0]?.index]);

  const surprise = (direction: 1 | -1) => {
    const next = neighbour(sequence.surprises, selected ?? -1, direction);
    if (next !== null) onToken(next);
  };
  useShortcuts({ n: () => surprise(1), p: () => surprise(-1) });
  const move = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    onToken(Math.min(sequence.tokens - 1, Math.max(0, (selected ?? -1) + by)));
  };
  const choose = (event: MouseEvent) => {
    const place = placeUnder(event.target);
    if (place === null) return;
    brought.current = place;
    onToken(place);
  };
  const shown = hovered ?? selected;
  return (
    <>
      <div className={styles.bar}>
        <ChannelPicker channel={channel} onChannel={onChannel} />
        <span className="spacer" />
        <Button.Group>
          <Button
            size="compact-sm"
            variant="default"
            disabled={sequence.surprises.length === 0}
            onClick={() => surprise(-1)}
            rightSection={<KeyHint>p</KeyHint>}
          >
            Previous surprise
          </Button>
          <Button
            size="compact-sm"
            variant="default"
            disabled={sequence.surprises.length === 0}
            onClick={() => surprise(1)}
            rightSection={<KeyHint>n</KeyHint>}
          >
            Next of {number(sequence.surprises.length)}
          </Button>
        </Button.Group>
      </div>
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
        onClick={choose}
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
      <TokenCard
        place={shown}
        total={sequence.tokens}
        window={shown === null ? undefined : windowAt(shown)}
        link={selected !== null && shown === selected ? viewLink(router) : undefined}
      />
    </>
  );
}
