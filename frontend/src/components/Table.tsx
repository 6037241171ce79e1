import { Button, Center } from "@mantine/core";
import type { ReactNode, Ref } from "react";
import { Boundary } from "@/components/panels";
import css from "./table.module.css";

/** A column's heading; a plain string is its label, false omits it. */
export type Heading =
  | string
  | false
  | { label: ReactNode; className?: string; title?: string; isNumber?: boolean; "aria-sort"?: "ascending" | "descending" };

type Props = {
  /** Accessible name. */
  label?: string;
  /** Makes the table a landmark that can be scrolled with the keyboard. */
  role?: "group" | "region";
  /** Class of the scrolled box. */
  className?: string;
  tableClass?: string;
  /** The scrolled box. */
  ref?: Ref<HTMLDivElement>;
  columns: readonly Heading[];
  /** The rows. */
  children: ReactNode;
};

/** The class of a table without a scrolled box. */
export const TABLE = css.table as string;

/** A row of one cell, for what takes the place of rows. */
export function Row({ width, children }: { width: number; children: ReactNode }) {
  return (
    <tr>
      <td colSpan={width}>{children}</td>
    </tr>
  );
}

/** A table that scrolls sideways in narrow windows. */
export function Table({ label, role, className = "", tableClass = "", ref, columns, children }: Props) {
  const scrolled = role ? { role, tabIndex: 0, "aria-label": label } : {};
  return (
    <div ref={ref} className={`${css.scroll} ${className}`} data-scroll {...scrolled}>
      <table className={`${css.table} ${tableClass}`} aria-label={role ? undefined : label}>
        <thead>
          <tr>
            {columns.map((column, at) => {
              if (column === false) return null;
              const { label: heading, isNumber, ...rest } = typeof column === "string" ? { label: column, isNumber: false } : column;
              return (
                <th key={at} scope="col" data-num={isNumber || undefined} {...rest}>
                  {heading}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          <Boundary part="Table" frame={(error) => <Row width={columns.length}>{error}</Row>}>
            {children}
          </Boundary>
        </tbody>
      </table>
    </div>
  );
}

export type Pages = { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown };

/** The "Show more" button of a paginated list; nothing on the last page. */
export function ShowMore({ pages, words = "Show more" }: { pages: Pages; words?: string }) {
  if (!pages.hasNextPage) return null;
  return (
    <Center p="xs">
      <Button size="compact-sm" variant="default" loading={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
        {words}
      </Button>
    </Center>
  );
}
