import { Button } from "@mantine/core";
import { useState } from "react";
import type { Cell, Sheet } from "@/charts/model";
import { Dialog } from "@/components/Dialog";
import { Table } from "@/components/Table";
import { clock, number, utc } from "@/format";

type Props = { name: string; sheet: Sheet; isTime: boolean; onClose: () => void };

const ROWS_A_PAGE = 100;

function Value({ value, isMoment }: { value: Cell; isMoment: boolean }) {
  if (typeof value !== "number") return <>{value ?? "–"}</>;
  if (!isMoment) return <>{number(value, 6)}</>;
  const at = new Date(value * 1000).toISOString();
  return (
    <time dateTime={at} title={utc(at)}>
      {clock(at)}
    </time>
  );
}

/** The chart's data as a table, 100 rows per page. */
export function SheetDialog({ name, sheet, isTime, onClose }: Props) {
  const [first, setFirst] = useState(0);
  const { head, rows, place } = sheet;
  const page = rows.slice(first, first + ROWS_A_PAGE);
  const range =
    rows.length > 0 ? `${number(first + 1)} – ${number(first + page.length)} of ${number(rows.length)} rows in view` : "No data in view.";
  return (
    <Dialog onClose={onClose} title={`${name} as a table`} size="xl">
      <Table
        label={`Rows of ${name}`}
        role="region"
        className="chart-sheet"
        columns={[...head.map((title, i) => ({ label: title, className: typeof rows[0]?.[i] === "string" ? "" : "num" }))]}
      >
        {page.map((row, i) => (
          <tr key={first + i}>
            {head.map((title, at) => (
              <td key={title} className={typeof row[at] === "string" ? "anywhere" : "num"}>
                <Value value={row[at]} isMoment={isTime && at === place} />
              </td>
            ))}
          </tr>
        ))}
      </Table>
      <div className="dialog-foot chart-sheet-foot">
        <span className="small soft" role="status">
          {range}
        </span>
        <span className="spacer" />
        <Button size="compact-sm" variant="default" disabled={first === 0} onClick={() => setFirst(first - ROWS_A_PAGE)}>
          Previous
        </Button>
        <Button
          size="compact-sm"
          variant="default"
          disabled={first + ROWS_A_PAGE >= rows.length}
          onClick={() => setFirst(first + ROWS_A_PAGE)}
        >
          Next
        </Button>
      </div>
    </Dialog>
  );
}
