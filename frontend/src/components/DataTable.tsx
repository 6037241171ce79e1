import { Button, Center, Checkbox, UnstyledButton, VisuallyHidden } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { Fragment, type HTMLAttributes, memo, type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { Boundary, ErrorState, Skeletons } from "@/components/panels";
import { type Pages, Row, ShowMore, Table } from "@/components/Table";
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
  /** Name of the order in a list that the server sorts. */
  sort?: string;
};

/** Rows below a row of their own, which names them. */
export type RowGroup<T> = { key: string; head: ReactNode; rows: readonly T[] };

type Selection<T> = {
  chosen: ReadonlySet<string>;
  labelOf: (row: T) => string;
  /** Label of the box for all rows; without it, rows are selected one by one. */
  all?: string;
  onChoose: (keys: string[], isOn: boolean) => void;
};

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
  /** The order of a list that the server sorts, with `-` if descending; and its change by a heading. */
  order?: string;
  onOrder?: (order: string) => void;
  /** Boxes that select rows. */
  selection?: Selection<T>;
  /** Height of all rows in pixels: of a long table only the visible rows are drawn. */
  rowHeight?: number;
  /** Called when the last row of a long table is drawn. */
  onEnd?: () => void;
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

type LineProps<T> = Pick<Props<T>, "attributes" | "keyOf" | "line"> & {
  row: T;
  columns: readonly Column<T>[];
  isChosen: boolean;
  labelOf?: Selection<T>["labelOf"];
  onChoose?: Selection<T>["onChoose"];
};

function LineOf<T>({ row, columns, attributes, keyOf, line, isChosen, labelOf, onChoose }: LineProps<T>) {
  const cells = (
    <>
      {onChoose && (
        <td className={css.pick}>
          <Checkbox
            size="xs"
            aria-label={labelOf?.(row)}
            checked={isChosen}
            onChange={(event) => onChoose([String(keyOf(row))], event.currentTarget.checked)}
          />
        </td>
      )}
      {columns.map((column) => (
        <td key={idOf(column)} className={column.className} data-num={column.isNumber || undefined}>
          {column.cell ? column.cell(row) : textOf(column.value?.(row))}
        </td>
      ))}
    </>
  );
  if (line) return line(row, cells);
  return (
    <tr data-selected={isChosen || undefined} {...attributes?.(row)}>
      {cells}
    </tr>
  );
}
const Line = memo(LineOf) as typeof LineOf;

/** Longer tables of rows with a known height draw only the visible ones. */
const MOST_DRAWN = 100;

/** The visible rows of a long table in a box that scrolls; all rows of another table. */
function useVisible(count: number, rowHeight: number | undefined, onEnd?: () => void) {
  const box = useRef<HTMLDivElement>(null);
  const isLong = rowHeight !== undefined && count > MOST_DRAWN;
  const height = rowHeight ?? 0;
  const options = { count, getScrollElement: () => box.current, estimateSize: () => height, overscan: 20, enabled: isLong };
  const items = useVirtualizer(options).getVirtualItems();
  const [first, end] = isLong ? [items[0]?.index ?? 0, (items.at(-1)?.index ?? -1) + 1] : [0, count];
  useEffect(() => {
    if (isLong && end >= count) onEnd?.();
  }, [isLong, end, count, onEnd]);
  return { box, isLong, first, end, above: first * height, under: (count - end) * height };
}

const Gap = ({ width, height }: { width: number; height: number }) =>
  height > 0 && (
    <tr>
      <td colSpan={width} style={{ height, padding: 0 }} />
    </tr>
  );

/** A table whose rows sort by a click on a heading: descending first for numbers, then the other way, then as given. */
export function DataTable<T>({ rows: read, columns, keyOf, attributes, below, line, groups, page = Infinity, ...props }: Props<T>) {
  const { empty, error, pages, order: asked, onOrder, selection, rowHeight, onEnd, className = "", ...table } = props;
  const [own, setOwn] = useState("");
  const [most, setMost] = useState(page);
  const rows = read ?? NONE;
  const shown = useMemo(() => columns.filter((column) => column !== false), [columns]);
  const order = asked ?? own;
  const [by, isDown] = [order.replace(/^-/, ""), order.startsWith("-")];
  const value = asked === undefined ? shown.find((column) => idOf(column) === by)?.value : undefined;
  const ordered = useMemo(() => (value ? sorted(rows, value, isDown) : rows), [rows, value, isDown]);
  const heading = (column: Column<T>) => {
    const { label, title, className: own, isNumber } = column;
    const name = asked === undefined ? column.value && idOf(column) : onOrder && column.sort;
    if (!name) return { label, title, className: own, isNumber };
    const isFirstDown = onOrder !== undefined || (isNumber ?? false);
    const [first, second] = isFirstDown ? [`-${name}`, name] : [name, `-${name}`];
    const next = order === first ? second : order === second && !onOrder ? "" : first;
    const direction = by !== name ? undefined : isDown ? ("descending" as const) : ("ascending" as const);
    return {
      title,
      className: own,
      isNumber,
      "aria-sort": direction,
      label: (
        <UnstyledButton className={css.sort} onClick={() => (onOrder ?? setOwn)(next)}>
          {label}
          <span aria-hidden="true">{direction && (isDown ? " ↓" : " ↑")}</span>
        </UnstyledButton>
      ),
    };
  };
  const lines = (members: readonly T[]) =>
    members.map((row) => (
      <Fragment key={keyOf(row)}>
        <Boundary part="Row" data={row} frame={(failure) => <Row width={headings.length}>{failure}</Row>}>
          <Line
            row={row}
            columns={shown}
            attributes={attributes}
            keyOf={keyOf}
            line={line}
            labelOf={selection?.labelOf}
            onChoose={selection?.onChoose}
            isChosen={selection?.chosen.has(String(keyOf(row))) ?? false}
          />
        </Boundary>
        {below?.(row)}
      </Fragment>
    ));
  const { box, isLong, first, end, above, under } = useVisible(Math.min(most, ordered.length), rowHeight, onEnd);
  const [noun] = table.label.split(",");
  if (!read) return error ? <ErrorState title={`${noun} unavailable`} error={error} /> : <Skeletons heights={[200]} />;
  const keys = selection ? rows.map((row) => String(keyOf(row))) : NONE;
  const areAllChosen = keys.length > 0 && keys.every((key) => selection?.chosen.has(key));
  const boxOfAll = selection?.all ? (
    <Checkbox
      size="xs"
      aria-label={selection.all}
      checked={areAllChosen}
      indeterminate={!areAllChosen && selection.chosen.size > 0}
      onChange={(event) => selection.onChoose(keys, event.currentTarget.checked)}
    />
  ) : (
    <VisuallyHidden>Selected</VisuallyHidden>
  );
  const headings = [...(selection ? [{ label: boxOfAll, className: css.pick }] : []), ...shown.map(heading)];
  return (
    <>
      {error && <ErrorState title={`${noun} not refreshed`} error={error} />}
      {read.length === 0 && empty}
      {(read.length > 0 || empty === undefined) && (
        <Table {...table} ref={box} className={`${className} ${isLong ? css.long : ""}`} columns={headings}>
          <Gap width={headings.length} height={above} />
          {groups
            ? groups.map(({ key, head, rows: members }) => [head, <Fragment key={`of ${key}`}>{lines(members)}</Fragment>])
            : lines(ordered.slice(first, end))}
          <Gap width={headings.length} height={under} />
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
