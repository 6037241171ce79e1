import { Button } from "@mantine/core";
import type { ReactNode, Ref } from "react";
import { Boundary } from "@/components/panels";

/** A column's heading; a plain string is its label, false omits it. */
export type Heading = string | false | { label: ReactNode; className?: string; title?: string; "aria-sort"?: "ascending" | "descending" };

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
    <div ref={ref} className={`table-scroll ${className}`} {...scrolled}>
      <table className={`table ${tableClass}`} aria-label={role ? undefined : label}>
        <thead>
          <tr>
            {columns.map((column, at) => {
              if (column === false) return null;
              const { label: heading, ...rest } = typeof column === "string" ? { label: column } : column;
              return (
                <th key={at} scope="col" {...rest}>
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
    <div className="table-foot">
      <Button size="compact-sm" variant="default" loading={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
        {words}
      </Button>
    </div>
  );
}
