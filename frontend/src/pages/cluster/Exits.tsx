import type { PartExit } from "@/api/deployment";
import { Age } from "@/components/Age";
import { Table } from "@/components/Table";
import { clock, number, visible } from "@/format";
import css from "./cluster.module.css";

/** The parts that exited within a day, with the reason and, for administrators, the end of the log. */
export function Exits({ exits }: { exits: PartExit[] }) {
  if (exits.length === 0) return null;
  return (
    <Table label="Exits" columns={["Part", "Last exit", "Exits", "Reason"]}>
      {exits.map((row) => (
        <tr key={`${row.part} ${row.host}`} data-exit={row.part}>
          <td className={css.process}>
            <b>{visible(row.part)}</b> <span className="soft small anywhere">{visible(row.host)}</span>
          </td>
          <td className="soft">
            <Age at={row.last_at} suffix=" ago" />
          </td>
          <td>
            {number(row.exits)}
            {row.exits > 1 && <span className="faint small"> since {clock(row.first_at)}</span>}
          </td>
          <td className="anywhere">
            {visible(row.reason)}
            {row.log && (
              <details className="small">
                <summary>Last lines of the log</summary>
                <pre className={css.log} tabIndex={0}>
                  {visible(row.log)}
                </pre>
              </details>
            )}
          </td>
        </tr>
      ))}
    </Table>
  );
}
