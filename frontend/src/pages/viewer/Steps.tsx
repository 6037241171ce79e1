import { useQueries } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useRef } from "react";
import { type StepWindow, stepsQuery, WINDOW_STEPS } from "@/api/fragments";
import { ErrorState } from "@/components/ErrorState";
import { number, policyStep } from "@/format";
import { placeOf, type StepPart, stepOf } from "@/pages/viewer/fragment";
import styles from "@/pages/viewer/fragment.module.css";

const ROW_PX = 30;
const PAGE_ROWS = 15;
/** The sixth column is the fragment in a list over several fragments. */
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

type RowProps = {
  window: StepWindow | undefined;
  /** Index in the list, and in the window's fragment. */
  step: number;
  inside: number;
  /** Number of the fragment, in a list over several fragments. */
  fragment: number | undefined;
  isChosen: boolean;
};

function Row({ window, step, inside, fragment, isChosen }: RowProps) {
  const found = stepOf(window, inside);
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
        {fragment ?? found?.episode}
      </span>
      <span role="cell" className={styles.mark}>
        {found?.mark}
      </span>
      <span role="cell" className={styles.num}>
        {found ? policyStep(found.version) : ""}
      </span>
      <span role="cell" className={styles.clip} title={found?.obs}>
        {found?.obs}
      </span>
    </div>
  );
}

type Props = {
  run: string;
  /** Accessible name of the table. */
  label: string;
  parts: StepPart[];
  chosen: number | undefined;
  onChoose: (step: number) => void;
};

/** All steps of consecutive parts of fragments; only visible rows are rendered and fetched. */
export function Steps({ run, label, parts, chosen, onChoose }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const total = parts.reduce((sum, part) => sum + part.steps, 0);
  const virtual = useVirtualizer({ count: total, getScrollElement: () => scroller.current, estimateSize: () => ROW_PX, overscan: 12 });
  const items = virtual.getVirtualItems().flatMap(({ index, start }) => {
    const place = placeOf(parts, index);
    return place ? [{ index, top: start, ...place, start: Math.floor(place.step / WINDOW_STEPS) * WINDOW_STEPS }] : [];
  });
  const hasFragments = parts.some((part) => part.number !== undefined);
  const keyOf = (item: (typeof items)[number]) => `${item.part.fragment} ${item.start}`;
  const needed = new Map(items.map((item) => [keyOf(item), item]));
  const asked = useQueries({ queries: [...needed.values()].map((item) => stepsQuery(run, item.part.fragment, item.start)) });
  const windows = new Map([...needed.keys()].map((key, at) => [key, asked[at]?.data]));
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
        <div role="table" aria-label={label} aria-rowcount={total + 1} className={styles.table}>
          <div role="rowgroup" className={styles.head}>
            <div role="row" aria-rowindex={1} className={styles.row}>
              {COLUMNS.map(([name, look]) => (
                <span key={name} role="columnheader" className={look === "num" ? styles.num : undefined}>
                  {name === "Episode" && hasFragments ? "Fragment" : name || <span className="unseen">Flags</span>}
                </span>
              ))}
            </div>
          </div>
          <div role="rowgroup" className={styles.sheet} style={{ height: virtual.getTotalSize() }}>
            {items.map((item) => (
              <div
                key={item.index}
                role="presentation"
                className={styles.place}
                style={{ transform: `translateY(${item.top}px)` }}
                onClick={() => onChoose(item.index)}
              >
                <Row
                  window={windows.get(keyOf(item))}
                  step={item.index}
                  inside={item.step}
                  fragment={item.part.number}
                  isChosen={item.index === chosen}
                />
              </div>
            ))}
          </div>
        </div>
      </div>
    </>
  );
}
