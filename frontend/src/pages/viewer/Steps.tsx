import { useQueries } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useRef } from "react";
import { type StepWindow, stepsQuery, WINDOW_STEPS } from "@/api/fragments";
import { ErrorState } from "@/components/ErrorState";
import { number, policyStep } from "@/format";
import { stepOf } from "@/pages/viewer/fragment";
import styles from "@/pages/viewer/fragment.module.css";

const ROW_PX = 30;
const PAGE_ROWS = 15;
const COLUMNS = [
  ["Step", "num"],
  ["Action", ""],
  ["Reward", "num"],
  ["Value", "num"],
  ["Logprob", "num"],
  ["Episode", "num"],
  ["", ""],
  ["Policy", "num"],
  ["Observation", ""],
] as const;

function Row({ window, step, isChosen }: { window: StepWindow | undefined; step: number; isChosen: boolean }) {
  const found = stepOf(window, step);
  return (
    <div
      role="row"
      aria-rowindex={step + 2}
      className={styles.row}
      data-step={step}
      data-padding={found?.isPadding || undefined}
      data-ends={/terminated|truncated/.test(found?.mark ?? "") || undefined}
      aria-current={isChosen ? "true" : undefined}
    >
      <span role="rowheader" className={styles.num}>
        {step}
      </span>
      <span role="cell" className={styles.clip} title={found?.action}>
        {found?.action ?? "…"}
      </span>
      <span role="cell" className={styles.num}>
        {number(found?.reward)}
      </span>
      <span role="cell" className={styles.num}>
        {number(found?.value)}
      </span>
      <span role="cell" className={styles.num}>
        {number(found?.logprob)}
      </span>
      <span role="cell" className={styles.num}>
        {found?.episode}
      </span>
      <span role="cell" className={styles.mark}>
        {found?.mark}
      </span>
      <span role="cell" className={styles.num}>
        {found ? policyStep(found.version) : ""}
      </span>
      <span role="cell" className={styles.clip} title={found?.obs}>
        {found?.obs || (found && window ? `${number(window.obs_size)} values` : "")}
      </span>
    </div>
  );
}

type Props = { run: string; fragment: number; total: number; chosen: number | undefined; onChoose: (step: number) => void };

/** All steps of a fragment; only visible rows are rendered and fetched. */
export function Steps({ run, fragment, total, chosen, onChoose }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: total, getScrollElement: () => scroller.current, estimateSize: () => ROW_PX, overscan: 12 });
  const items = virtual.getVirtualItems();
  const startOf = (step: number) => Math.floor(step / WINDOW_STEPS) * WINDOW_STEPS;
  const starts = [...new Set(items.map(({ index }) => startOf(index)))];
  const asked = useQueries({ queries: starts.map((start) => stepsQuery(run, fragment, start)) });
  const windows = new Map(asked.flatMap(({ data }) => (data ? [[data.start, data] as const] : [])));
  const failed = asked.find(({ isError }) => isError);
  // A link leads to the list, which may be below the screen.
  const isLinked = useRef(chosen !== undefined);
  useEffect(() => {
    if (isLinked.current) scroller.current?.scrollIntoView({ block: "center" });
    isLinked.current = false;
  }, []);
  useEffect(() => {
    if (chosen !== undefined) virtual.scrollToIndex(chosen, { align: "center" });
  }, [chosen, virtual]);
  const move = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE_ROWS, PageUp: -PAGE_ROWS, Home: -total, End: total }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    onChoose(Math.min(total - 1, Math.max(0, (chosen ?? -1) + by)));
  };
  return (
    <>
      {failed && <ErrorState title="Some steps are unavailable" error={failed.error} onRetry={() => void failed.refetch()} />}
      <div
        ref={scroller}
        className={styles.scroller}
        tabIndex={0}
        role="region"
        aria-label={`Steps, ${number(total)}; arrow keys move between steps`}
        onKeyDown={move}
      >
        <div role="table" aria-label="Steps of the fragment" aria-rowcount={total + 1} className={styles.table}>
          <div role="rowgroup" className={styles.head}>
            <div role="row" aria-rowindex={1} className={styles.row}>
              {COLUMNS.map(([name, look]) => (
                <span key={name} role="columnheader" className={look === "num" ? styles.num : undefined}>
                  {name || <span className="unseen">Flags</span>}
                </span>
              ))}
            </div>
          </div>
          <div role="rowgroup" className={styles.sheet} style={{ height: virtual.getTotalSize() }}>
            {items.map(({ key, index, start }) => (
              <div
                key={key}
                role="presentation"
                className={styles.place}
                style={{ transform: `translateY(${start}px)` }}
                onClick={() => onChoose(index)}
              >
                <Row window={windows.get(startOf(index))} step={index} isChosen={index === chosen} />
              </div>
            ))}
          </div>
        </div>
      </div>
    </>
  );
}
