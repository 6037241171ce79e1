import { Button, NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type MouseEvent, useMemo } from "react";
import { type SequenceList, type SequenceSummary, type SequenceWindow, windowsQuery } from "@/api/groups";
import { ErrorState } from "@/components/ErrorState";
import { Skeletons } from "@/components/Skeletons";
import { number } from "@/format";
import { partings, sharedBy } from "@/pages/viewer/alignment";
import { ChannelPicker } from "@/pages/viewer/ChannelPicker";
import type { Channel } from "@/pages/viewer/channels";
import { Spans } from "@/pages/viewer/Spans";
import { ORDERS, type Order, type ViewerSearch } from "@/pages/viewer/search";
import styles from "@/pages/viewer/tokens.module.css";

const SHOWN = 256;
/** Number of tokens shown before the first divergence. */
const BEFORE = 24;
const MOST_ROWS = 32;

function ordered(sequences: SequenceSummary[], order: Order): SequenceSummary[] {
  if (order === "index") return sequences;
  const key = (one: SequenceSummary) => (order === "score" ? (one.score ?? -Infinity) : one.tokens);
  return [...sequences].sort((one, other) => key(other) - key(one) || one.index - other.index);
}

type Props = {
  run: string;
  group: number;
  list: SequenceList;
  channel: Channel;
  onChannel: (channel: Channel) => void;
  onOpen: (sequence: number, token: number) => void;
  look: Pick<ViewerSearch, "order" | "first">;
  onLook: (look: Pick<ViewerSearch, "order" | "first">) => void;
};

/** The sequences of a group aligned at their divergence; shared tokens are dimmed. */
export function TokenDiff({ run, group, list, channel, onChannel, onOpen, look, onLook }: Props) {
  const { order = "score" } = look;
  const longest = Math.max(0, ...list.results.map((one) => one.tokens));
  const first = Math.max(0, Math.min(list.common_prefix, longest - 1) - BEFORE);
  const start = Math.min(look.first ?? first, Math.max(0, longest - 1));
  const setStart = (place: number) => onLook({ first: place === first ? undefined : place });
  const rows = ordered(list.results, order).slice(0, MOST_ROWS);
  const asked = useQuery({
    ...windowsQuery(
      run,
      group,
      rows.map(({ index }) => index),
      start,
      SHOWN,
    ),
    enabled: rows.length > 0,
  });
  const windows = asked.data;
  const marks = useMemo(() => marksOf(windows ?? []), [windows]);
  const open = (event: MouseEvent) => {
    const token = (event.target as Element).closest<HTMLElement>("[data-token]");
    const row = (event.target as Element).closest<HTMLElement>("[data-sequence]");
    if (token && row) onOpen(Number(row.dataset.sequence), Number(token.dataset.token));
  };
  return (
    <>
      <div className={styles.bar}>
        <ChannelPicker channel={channel} onChannel={onChannel} />
        <span className="spacer" />
        <NativeSelect
          size="xs"
          aria-label="Order of the sequences"
          value={order}
          onChange={(event) => {
            const chosen = ORDERS.find((each) => each === event.currentTarget.value);
            onLook({ order: chosen === "score" ? undefined : chosen });
          }}
          data={[
            { value: "score", label: "Best first" },
            { value: "index", label: "Original order" },
            { value: "length", label: "Longest first" },
          ]}
        />
      </div>
      <p className={styles.note}>
        {list.common_prefix === 0
          ? "The sequences diverge at their first token."
          : `All sequences share the first ${number(list.common_prefix)} tokens.`}{" "}
        Showing tokens {number(start)} to {number(Math.min(start + SHOWN, longest) - 1)} of {number(longest)}; ▲ marks divergences.
      </p>
      {asked.isError && <ErrorState title="Tokens unavailable" error={asked.error} onRetry={() => void asked.refetch()} />}
      {asked.isLoading && <Skeletons heights={[200]} />}
      {windows && (
        <div className={styles.rows} onClick={open}>
          {rows.map((row, index) => {
            const window = windows[index];
            if (!window) return null;
            const marked = marks.get(row.index);
            return (
              <section key={row.index} data-sequence={row.index} className={styles.row} aria-label={`Sequence ${row.index}`}>
                <button
                  type="button"
                  className={styles.rowHead}
                  onClick={() => onOpen(row.index, Math.min(list.common_prefix, row.tokens - 1))}
                >
                  <b>{number(row.score)}</b>
                  <span className="faint tiny">sequence {row.index}</span>
                  <span className="faint tiny">{number(row.tokens)} tokens</span>
                  {row.duplicate_of !== null && <span className="held tiny">same as {row.duplicate_of}</span>}
                </button>
                <div className={styles.rowFlow}>
                  {window.tokens.length === 0 ? (
                    <span className="faint tiny">ends at {number(row.tokens)}</span>
                  ) : (
                    <Spans
                      window={window}
                      from={window.start}
                      to={window.start + window.tokens.length}
                      channel={channel}
                      selected={null}
                      markOf={(place) => marked?.get(place) ?? ""}
                    />
                  )}
                </div>
              </section>
            );
          })}
        </div>
      )}
      {list.results.length > MOST_ROWS && (
        <p className={styles.note}>
          Showing the first {MOST_ROWS} of {list.results.length} sequences.
        </p>
      )}
      <div className={styles.pager}>
        <Button size="compact-sm" variant="default" disabled={start === 0} onClick={() => setStart(Math.max(0, start - SHOWN))}>
          Earlier tokens
        </Button>
        <Button size="compact-sm" variant="default" disabled={start === first} onClick={() => setStart(first)}>
          Divergence
        </Button>
        <Button size="compact-sm" variant="default" disabled={start + SHOWN >= longest} onClick={() => setStart(start + SHOWN)}>
          Later tokens
        </Button>
      </div>
    </>
  );
}

/** CSS classes by sequence and position: shared tokens are dimmed, divergences marked. */
function marksOf(windows: SequenceWindow[]): Map<number, Map<number, string>> {
  const shared = sharedBy(windows.map((window) => window.tokens));
  return new Map(
    windows.map((window, index) => {
      const counts = shared[index] ?? [];
      const parts = new Set(partings(counts, windows.length));
      const marks = new Map<number, string>();
      counts.forEach((count, at) => {
        const classes = [count > 1 ? (styles.shared ?? "") : "", parts.has(at) ? (styles.parting ?? "") : ""];
        marks.set(window.start + at, classes.filter(Boolean).join(" "));
      });
      return [window.index, marks];
    }),
  );
}
