/** Arrange evaluations as a lesson × version matrix. Pure. */

import type { EvaluationRow } from "@/api/types";
import { percent } from "@/format";
import { intervalText } from "@/pages/run/curriculum/curriculum";
import { baselineOf, differenceOf, differenceText, rateOf } from "@/pages/run/evaluations/comparing";

/** Number of versions shown; older ones are available per lesson. */
export const COLUMNS = 12;

export type Rate = { estimate: number; low: number; high: number };

export type Cell = {
  row: EvaluationRow;
  /** The shown rate, pass@k of the selected k; null if there is none. */
  rate: Rate | null;
  /** The baseline's evaluation at that version, or the last before it; null without one. */
  against: { row: EvaluationRow; difference: Rate } | null;
  /** Change from the lesson's previous evaluation, if their intervals do not overlap. */
  change: "better" | "worse" | null;
};

type VersionColumn = { key: string; epoch: number; step: number };

export type Matrix = {
  /** Versions, oldest first. */
  columns: VersionColumn[];
  /** By lesson, then by column key. */
  cells: Map<string, Map<string, Cell>>;
  /** Number of shown epochs. */
  epochs: number;
};

const isOpen = ({ state }: EvaluationRow): boolean => state === "queued" || state === "leased";

/** The evaluated or scheduled version. */
function versionOf(row: EvaluationRow): VersionColumn {
  const step = row.state === "done" ? row.policy_step : row.due_step;
  return { key: `${row.epoch}.${step}`, epoch: row.epoch, step };
}

function changeOf(now: Rate | null, then: Rate | null | undefined): Cell["change"] {
  if (!now || !then) return null;
  if (now.high < then.low) return "worse";
  return now.low > then.high ? "better" : null;
}

function againstOf(row: EvaluationRow, rate: Rate | null, { k, baseline }: Asked): Cell["against"] {
  const base = baseline && rate ? baselineOf(baseline, row.lesson, row.policy_step) : null;
  const then = base && rateOf(base, k);
  return base && then && rate ? { row: base, difference: differenceOf(rate, then) } : null;
}

type Asked = { k: number; baseline?: EvaluationRow[] | undefined };

/** Arrange rows in any order; of two evaluations of one version, the newer is shown. */
export function matrixOf(rows: EvaluationRow[], asked: Asked = { k: 1 }): Matrix {
  const inOrder = [...rows].sort((a, b) => a.round - b.round);
  const versions = new Map<string, VersionColumn>();
  const cells: Matrix["cells"] = new Map();
  const last = new Map<string, Rate>();
  for (const row of inOrder) {
    const version = versionOf(row);
    versions.set(version.key, version);
    const line = cells.get(row.lesson) ?? new Map<string, Cell>();
    const rate = rateOf(row, asked.k);
    line.set(version.key, { row, rate, change: changeOf(rate, last.get(row.lesson)), against: againstOf(row, rate, asked) });
    cells.set(row.lesson, line);
    if (rate) last.set(row.lesson, rate);
  }
  const sorted = [...versions.values()].sort((a, b) => a.epoch - b.epoch || a.step - b.step);
  const columns = sorted.slice(-COLUMNS);
  return { columns, cells, epochs: new Set(columns.map(({ epoch }) => epoch)).size };
}

/** The tooltip and screen reader text of a cell. */
export function cellText({ row, change, against }: Cell): string {
  const at = `${row.lesson} at version ${versionOf(row).step}`;
  const last = row.reason ? `; the last attempt failed: ${row.reason}` : "";
  if (isOpen(row)) return `${at}: ${row.state === "queued" ? "waiting for a worker" : `running on ${row.worker}`}${last}`;
  if (!row.figures) return `${at}: ${row.state} after ${row.attempts} attempts: ${row.reason}`;
  const passes = Object.entries(row.figures.pass_at)
    .filter(([k]) => Number(k) > 1)
    .map(([k, rate]) => `, pass@${k} ${percent(rate)}`)
    .join("");
  const moved = change ? `; ${change} than the previous evaluation` : "";
  const compared = against
    ? `; ${differenceText(against.difference)} points compared with the baseline at version ${against.row.policy_step}`
    : "";
  return `${at}: success ${intervalText(row.figures.success)} of ${row.figures.problems} problems${passes}${moved}${compared}`;
}
