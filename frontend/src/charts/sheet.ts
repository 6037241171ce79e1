/** Tabulate a chart's data for files, tables and screen readers. Pure. */

import type { Column } from "@/charts/columns";
import { pauses } from "@/charts/look";
import type { Cell, Line, Range, Sheet } from "@/charts/model";
import { number } from "@/format";

export type Drawn = { x: number[]; xLabel: string; lines: Line[]; band?: { low: Column; high: Column; label: string } };

/** Lines of one legend entry are shown and hidden together. */
export const entryOf = (line: Line): string => line.entry ?? line.label;

export function isShown(line: Line, hidden: readonly string[]): boolean {
  return !hidden.includes(entryOf(line));
}

/** Visible data: one column per shown line; rows without any value are omitted. */
export function sheetOf({ x, xLabel, lines, band }: Drawn, range: Range, hidden: readonly string[] = []): Sheet {
  const shown = lines.filter((line) => isShown(line, hidden));
  const head = [xLabel, ...shown.map(({ label }) => label), ...(band ? ["least", "greatest"] : [])];
  const columns = [...shown.map(({ values }) => values), ...(band ? [band.low, band.high] : [])];
  const rows = x.flatMap((place, i) => {
    const values = columns.map((column) => column[i]);
    const isInView = range.from <= place && place <= range.to;
    return isInView && values.some((value) => value !== undefined) ? [[place, ...values]] : [];
  });
  return { head, rows, place: 0 };
}

const quoted = (text: string): string => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const cell = (value: Cell): string => (value === null || value === undefined ? "" : quoted(String(value)));

/** CSV text, one row per line; missing values are empty. */
export function csvText({ head, rows }: Sheet): string {
  return [head, ...rows].map((row) => `${row.map(cell).join(",")}\n`).join("");
}

/**
 * The index of the value that a line shows at an index of the common x: there, or else the nearest before.
 *
 * Null before the line begins and after it ends. At a gap it returns the gap, not the value before it.
 */
export function indexAt(values: Column, index: number): number | null {
  let before = index;
  while (before >= 0 && values[before] === undefined) before -= 1;
  if (before < 0) return null;
  if (before === index) return index;
  for (let after = index + 1; after < values.length; after += 1) if (values[after] !== undefined) return before;
  return null;
}

export function valueAt(values: Column, index: number): number | null | undefined {
  const found = indexAt(values, index);
  return found === null ? undefined : values[found];
}

/** Rounded values under the cursor, for screen readers. */
export function summaryAt({ lines }: Drawn, index: number, hidden: readonly string[] = []): string {
  return lines
    .filter((line) => isShown(line, hidden))
    .map((line) => `${line.label} ${number(valueAt(line.values, index))}`)
    .join(", ");
}

/** Indices of values between gaps, which no line segment shows; with `x`, pauses are gaps too. */
export function aloneIn(values: Column, x?: ArrayLike<number>): number[] {
  const afterPause = new Set(x ? pauses(x, values).map(([, next]) => next) : []);
  const found: number[] = [];
  let before: number | null = null;
  let candidate = -1;
  values.forEach((value, i) => {
    if (value === undefined) return;
    if (afterPause.has(i)) {
      if (candidate >= 0) found.push(candidate);
      before = null;
    }
    if (value === null) {
      if (candidate >= 0) found.push(candidate);
      candidate = -1;
    } else candidate = before === null ? i : -1;
    before = value;
  });
  return candidate >= 0 ? [...found, candidate] : found;
}
