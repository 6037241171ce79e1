import { Button, UnstyledButton } from "@mantine/core";
import { Fragment, type HTMLAttributes, type ReactNode, useMemo, useState } from "react";
import { ErrorState, Skeletons } from "@/components/panels";
import { type Pages, ShowMore, Table } from "@/components/Table";
import { number, visible } from "@/format";
import css from "./dataTable.module.css";

export type Column<T> = {
  /** Defaults to the label, if that is text. */
  id?: string;
  label: ReactNode;
  title?: string;
  /** Class of the heading and the cells, such as `num` or `wide-only`. */
  className?: string;
  /** Contents of a cell; defaults to the value as text. */
  cell?: (row: T) => ReactNode;
  /** The value that the column sorts by; without it, the column does not sort. */
  value?: (row: T) => string | number | null | undefined;
  /** Name of the order in a list that the server sorts. */
  sort?: string;
};

/** Rows below a row of their own, which names them. */
export type RowGroup<T> = { key: string; head: ReactNode; rows: readonly T[] };

type Props<T> = {
  label: string;
  /** Undefined until they are known. */
  rows: readonly T[] | undefined;
  columns: readonly (Column<T> | false)[];
  keyOf: (row: T) => string | number;
  /** Attributes of a row. */
  attributes?: (row: T) => HTMLAttributes<HTMLTableRowElement> & Record<`data-${string}`, string | number | boolean | undefined>;
  /** Cells of a further row below a row, of all columns; null for none. */
  below?: (row: T) => ReactNode;
  /** The row around its cells, for rows with a state; defaults to `tr` with the attributes. */
  line?: (row: T, cells: ReactNode) => ReactNode;
  /** The rows in groups, in place of one list. */
  groups?: readonly RowGroup<T>[];
  /** The order of a list that the server sorts, with `-` if descending; and its change by a heading. */
  order?: string;
  onOrder?: (order: string) => void;
  /** Makes the table a landmark that can be scrolled with the keyboard. */
  role?: "group";
  /** Number of rows shown at once; a button shows more. */
  page?: number;
  /** Takes the place of a table without rows. */
  empty?: ReactNode;
  /** Why the rows are missing or old. */
  error?: Error | null;
  /** The list of which the rows are the pages that have been read. */
  pages?: Pages;
  className?: string;
  tableClass?: string;
};

/** Rows by the value of a column; rows without one come last in both directions. */
export function sorted<T>(rows: readonly T[], value: NonNullable<Column<T>["value"]>, isDown: boolean): T[] {
  const known = rows.filter((row) => value(row) != null);
  const order = (one: T, other: T) => {
    const [a, b] = [value(one), value(other)];
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  };
  return [...known.toSorted((one, other) => (isDown ? order(other, one) : order(one, other))), ...rows.filter((row) => value(row) == null)];
}

const NONE: never[] = [];
const textOf = (value: string | number | null | undefined) => (typeof value === "string" ? visible(value) || "–" : number(value));
const idOf = <T,>({ id, label }: Column<T>) => id ?? String(label);

/** A table whose rows sort by a click on a heading: descending first for numbers, then the other way, then as given. */
export function DataTable<T>(props: Props<T>) {
  const {
    rows: read,
    columns,
    keyOf,
    attributes,
    below,
    line,
    groups,
    order: asked,
    onOrder,
    page = Infinity,
    empty,
    error,
    pages,
    ...table
  } = props;
  const [own, setOwn] = useState("");
  const [most, setMost] = useState(page);
  const rows = read ?? NONE;
  const shown = columns.filter((column) => column !== false);
  const order = onOrder ? asked : own;
  const [by, isDown] = [order?.replace(/^-/, ""), order?.startsWith("-") ?? false];
  const value = onOrder ? undefined : shown.find((column) => idOf(column) === by)?.value;
  const ordered = useMemo(() => (value ? sorted(rows, value, isDown) : rows), [rows, value, isDown]);
  const headingOf = (column: Column<T>) => {
    const { label, title, className } = column;
    const name = onOrder ? column.sort : column.value && idOf(column);
    if (!name) return { label, title, className };
    const isFirstDown = onOrder !== undefined || (className?.split(" ").includes("num") ?? false);
    const [first, second] = isFirstDown ? [`-${name}`, name] : [name, `-${name}`];
    const next = order === first ? second : order === second && !onOrder ? "" : first;
    const direction = by !== name ? undefined : isDown ? ("descending" as const) : ("ascending" as const);
    return {
      ...{ title, className, "aria-sort": direction },
      label: (
        <UnstyledButton className={css.sort} onClick={() => (onOrder ?? setOwn)(next)}>
          {label}
          <span aria-hidden="true">{direction && (isDown ? " ↓" : " ↑")}</span>
        </UnstyledButton>
      ),
    };
  };
  const lines = (members: readonly T[]) =>
    members.map((row) => {
      const cells = shown.map((column) => (
        <td key={idOf(column)} className={column.className}>
          {column.cell ? column.cell(row) : textOf(column.value?.(row))}
        </td>
      ));
      return (
        <Fragment key={keyOf(row)}>
          {line ? line(row, cells) : <tr {...attributes?.(row)}>{cells}</tr>}
          {below?.(row)}
        </Fragment>
      );
    });
  const [noun] = table.label.split(",");
  if (!read) return error ? <ErrorState title={`${noun} unavailable`} error={error} /> : <Skeletons heights={[200]} />;
  return (
    <>
      {error && <ErrorState title={`${noun} not refreshed`} error={error} />}
      {read.length === 0 && empty}
      {(read.length > 0 || empty === undefined) && (
        <Table {...table} columns={shown.map(headingOf)}>
          {groups
            ? groups.map(({ key, head, rows: members }) => [head, <Fragment key={`of ${key}`}>{lines(members)}</Fragment>])
            : lines(ordered.slice(0, most))}
        </Table>
      )}
      {most < ordered.length && (
        <div className="table-foot">
          <Button size="compact-sm" variant="default" onClick={() => setMost(most + page)}>
            Show {number(Math.min(page, ordered.length - most))} more of {number(ordered.length)}
          </Button>
        </div>
      )}
      {pages && <ShowMore pages={pages} />}
    </>
  );
}
