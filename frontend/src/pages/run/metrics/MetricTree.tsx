import { UnstyledButton } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { ChevronRight } from "lucide-react";
import { type KeyboardEvent, useMemo, useRef, useState } from "react";
import { number, visible } from "@/format";
import { type Row, rowsOf, treeOf, withWords } from "./tree";
import classes from "./tree.module.css";

const ROW_PX = 26;
const OPEN_WHEN_FEW = 40;

type Props = {
  names: readonly string[];
  /** Words that names must contain. */
  words: string;
  /** The branch whose charts are shown. */
  under: string;
  onUnder: (path: string) => void;
};

type LineProps = { row: Row; isChosen: boolean; top: number; onToggle: () => void; onChoose: () => void };

function Line({ row, isChosen, top, onToggle, onChoose }: LineProps) {
  const { label, depth, count, isBranch, isOpen } = row;
  const onKeyDown = (event: KeyboardEvent) => {
    if (!isBranch || (event.key === "ArrowRight") === isOpen || !/^Arrow(Left|Right)$/.test(event.key)) return;
    event.preventDefault();
    onToggle();
  };
  return (
    <div
      role="treeitem"
      aria-level={depth + 1}
      aria-expanded={isBranch ? isOpen : undefined}
      aria-selected={isChosen}
      className={classes.row}
      style={{ transform: `translateY(${top}px)`, height: ROW_PX, paddingLeft: `${depth * 0.85}rem` }}
      data-path={row.path}
    >
      {isBranch ? (
        <UnstyledButton
          className={classes.fold}
          data-open={isOpen || undefined}
          aria-label={`${isOpen ? "Collapse" : "Expand"} ${visible(row.path)}`}
          onClick={onToggle}
        >
          <ChevronRight size={14} aria-hidden="true" />
        </UnstyledButton>
      ) : (
        <span className={classes.fold} />
      )}
      <UnstyledButton className={classes.name} onClick={onChoose} onKeyDown={onKeyDown} title={visible(row.path)}>
        {visible(label)}
      </UnstyledButton>
      {isBranch && <span className="faint tiny">{number(count)}</span>}
    </div>
  );
}

/** A tree of a run's metric names, split at slashes and dots. */
export function MetricTree({ names, words, under, onUnder }: Props) {
  const found = useMemo(() => withWords(names, words), [names, words]);
  const tree = useMemo(() => treeOf(found), [found]);
  // Branches the user toggled; others are open if they have few entries.
  const [folded, setFolded] = useState<ReadonlyMap<string, boolean>>(new Map());
  const areFew = found.length <= OPEN_WHEN_FEW;
  const rows = useMemo(() => rowsOf(tree, (path) => folded.get(path) ?? (areFew || under.startsWith(path))), [tree, folded, areFew, under]);
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => ROW_PX, overscan: 12 });
  return (
    <nav className={classes.tree} aria-label="Metric names">
      <UnstyledButton className={classes.all} aria-pressed={under === ""} onClick={() => onUnder("")}>
        All metrics <span className="faint tiny">{number(found.length)}</span>
      </UnstyledButton>
      <div ref={box} className={classes.scroll}>
        <div role="tree" aria-label="Metric tree" style={{ height: virtual.getTotalSize() }} className={classes.inner}>
          {virtual.getVirtualItems().map(({ index, start }) => {
            const row = rows[index] as Row;
            return (
              <Line
                key={row.path}
                row={row}
                top={start}
                isChosen={row.path === under}
                onChoose={() => onUnder(row.path)}
                onToggle={() => setFolded((old) => new Map(old).set(row.path, !row.isOpen))}
              />
            );
          })}
        </div>
      </div>
    </nav>
  );
}
