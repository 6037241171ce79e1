import type { DatabasePart } from "@/api/deployment";
import { Age } from "@/components/Age";
import { Panel } from "@/components/Panel";
import { Table } from "@/components/Table";
import { bytes, count, percent, visible } from "@/format";

/** Share of dead rows above which a table is highlighted. */
const MANY_DEAD = 0.2;
const FEW_ROWS = 10_000;

function isBloated({ dead_rows, live_rows }: { dead_rows: number; live_rows: number }): boolean {
  return dead_rows > FEW_ROWS && dead_rows > MANY_DEAD * (live_rows + dead_rows);
}

/** The largest tables of the database, with their dead rows. */
export function Tables({ tables }: { tables: DatabasePart["tables"] }) {
  return (
    <Panel title="Largest tables" note="from PostgreSQL's statistics" className="span-6">
      {!tables ? (
        <p className="soft small">Not available: the database role lacks the permission, or the query timed out.</p>
      ) : (
        <Table
          label="Largest tables"
          role="group"
          columns={[
            "Table",
            { label: "Size", className: "num" },
            { label: "Live rows", className: "num" },
            { label: "Dead rows", className: "num", title: "Updated or deleted rows, not yet vacuumed" },
            { label: "Vacuumed", className: "num wide-only" },
          ]}
        >
          {tables.map((table) => (
            <tr key={table.name}>
              <td className="mono small anywhere">{visible(table.name)}</td>
              <td className="num">{bytes(table.size_bytes)}</td>
              <td className="num">{count(table.live_rows)}</td>
              <td className={`num ${isBloated(table) ? "held" : ""}`}>
                {isBloated(table) && <span aria-hidden="true">▲ </span>}
                {count(table.dead_rows)}
                {table.dead_rows > 0 && <span className="faint"> · {percent(table.dead_rows / (table.live_rows + table.dead_rows))}</span>}
              </td>
              <td className="num soft wide-only">{table.vacuumed_at ? <Age at={table.vacuumed_at} suffix=" ago" /> : "never"}</td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}
