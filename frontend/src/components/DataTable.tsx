import { Button, Center, UnstyledButton } from "@mantine/core";
import { Fragment, type HTMLAttributes, type ReactNode, useMemo, useState } from "react";
import { ErrorState, Skeletons } from "@/components/panels";
import { type Pages, ShowMore, Table } from "@/components/Table";
import { number, visible } from "@/format";
import css from "./table.module.css";

export type Column<T> = {
  /** Defaults to the label, if that is text. */
  id?: string;
  label: ReactNode;
  title?: string;
  /** Class of the heading and the cells, such as `mantine-visible-from-sm`. */
  className?: string;
  isNumber?: boolean;
  /** Contents of a cell; defaults to the value as text. */
  cell?: (row: T) => ReactNode;
  /** The value that the column sorts by; without it, the column does not sort. */
  value?: (row: T) => string | number | null | undefined;
};

type Sort = { id: string; isDown: boolean };

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
export function DataTable<T>({ rows: read, columns, keyOf, attributes, below, page = Infinity, empty, error, pages, ...table }: Props<T>) {
  const [sort, setSort] = useState<Sort | null>(null);
  const [most, setMost] = useState(page);
  const rows = read ?? NONE;
  const shown = columns.filter((column) => column !== false);
  const value = shown.find((column) => idOf(column) === sort?.id)?.value;
  const ordered = useMemo(() => (value && sort ? sorted(rows, value, sort.isDown) : rows), [rows, value, sort]);
  const press = (column: Column<T>) => {
    const id = idOf(column);
    const isFirstDown = column.isNumber ?? false;
    if (sort?.id !== id) setSort({ id, isDown: isFirstDown });
    else setSort(sort.isDown === isFirstDown ? { id, isDown: !isFirstDown } : null);
  };
  const [noun] = table.label.split(",");
  if (!read) return error ? <ErrorState title={`${noun} unavailable`} error={error} /> : <Skeletons heights={[200]} />;
  return (
    <>
      {error && <ErrorState title={`${noun} not refreshed`} error={error} />}
      {read.length === 0 && empty}
      {(read.length > 0 || empty === undefined) && (
        <Table
          {...table}
          columns={shown.map((column) => {
            const { label, title, className, isNumber } = column;
            if (!column.value) return { label, title, className, isNumber };
            const direction = sort?.id !== idOf(column) ? undefined : sort.isDown ? "descending" : "ascending";
            return {
              ...{ title, className, isNumber, "aria-sort": direction },
              label: (
                <UnstyledButton className={css.sort} onClick={() => press(column)}>
                  {label}
                  <span aria-hidden="true">{direction && (sort?.isDown ? " ↓" : " ↑")}</span>
                </UnstyledButton>
              ),
            };
          })}
        >
          {ordered.slice(0, most).map((row) => (
            <Fragment key={keyOf(row)}>
              <tr {...attributes?.(row)}>
                {shown.map((column) => (
                  <td key={idOf(column)} className={column.className} data-num={column.isNumber || undefined}>
                    {column.cell ? column.cell(row) : textOf(column.value?.(row))}
                  </td>
                ))}
              </tr>
              {below?.(row)}
            </Fragment>
          ))}
        </Table>
      )}
      {most < ordered.length && (
        <Center p="xs">
          <Button size="compact-sm" variant="default" onClick={() => setMost(most + page)}>
            Show {number(Math.min(page, ordered.length - most))} more of {number(ordered.length)}
          </Button>
        </Center>
      )}
      {pages && <ShowMore pages={pages} />}
    </>
  );
}
