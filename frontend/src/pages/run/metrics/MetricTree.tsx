/** The tree of a run's metric names. */

import { UnstyledButton } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { ChevronRight } from "lucide-react";
import { type KeyboardEvent, useMemo, useRef, useState } from "react";
import { number, visible } from "@/format";
import classes from "./tree.module.css";

export type Leaf = { kind: "leaf"; path: string; label: string };
export type Branch = { kind: "branch"; path: string; label: string; count: number; children: (Branch | Leaf)[] };
export type Row = { path: string; label: string; depth: number; count: number; isBranch: boolean; isOpen: boolean };

type Growing = { branches: Map<string, Growing>; leaves: Leaf[]; path: string; label: string };

const grow = (path: string, label: string): Growing => ({ branches: new Map(), leaves: [], path, label });

/** The parts of a name, each with its trailing slash or dot: `train/` `loss`. */
export function partsOf(name: string): string[] {
  return name.match(/[^/.]*[/.]|[^/.]+$/g) ?? [name];
}

function settle(node: Growing): Branch {
  const branches = [...node.branches.values()].map(settle).map(shortened);
  const children = [...branches, ...node.leaves].sort((a, b) => a.label.localeCompare(b.label, "en", { numeric: true }));
  const count = children.reduce((sum, child) => sum + (child.kind === "branch" ? child.count : 1), 0);
  return { kind: "branch", path: node.path, label: node.label, count, children };
}

/** Merge a branch with its only child into one row. */
function shortened(branch: Branch): Branch {
  const only = branch.children.length === 1 ? branch.children[0] : undefined;
  return only?.kind === "branch" ? { ...only, label: branch.label + only.label } : branch;
}

export function treeOf(names: readonly string[]): Branch {
  const root = grow("", "");
  for (const name of names) {
    const parts = partsOf(name);
    let node = root;
    for (const part of parts.slice(0, -1)) {
      const next = node.branches.get(part) ?? grow(node.path + part, part);
      node.branches.set(part, next);
      node = next;
    }
    node.leaves.push({ kind: "leaf", path: name, label: parts.at(-1) ?? name });
  }
  return settle(root);
}

/** The visible rows of a tree: children only of open branches. */
export function rowsOf(tree: Branch, isOpen: (path: string) => boolean, depth = 0): Row[] {
  return tree.children.flatMap((child): Row[] => {
    if (child.kind === "leaf") return [{ path: child.path, label: child.label, depth, count: 1, isBranch: false, isOpen: false }];
    const open = isOpen(child.path);
    const row = { path: child.path, label: child.label, depth, count: child.count, isBranch: true, isOpen: open };
    return open ? [row, ...rowsOf(child, isOpen, depth + 1)] : [row];
  });
}

/** Names that contain every word, case-insensitive. */
export function withWords(names: readonly string[], words: string): readonly string[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return wanted.length === 0 ? names : names.filter((name) => wanted.every((word) => name.toLowerCase().includes(word)));
}

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
