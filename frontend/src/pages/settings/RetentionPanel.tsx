import { useQuery } from "@tanstack/react-query";
import { type Retention, retentionQuery } from "@/api/deployment";
import { type Column, DataTable } from "@/components/DataTable";
import { Age } from "@/components/inline";
import { Command, Panel } from "@/components/panels";
import { bytes, count } from "@/format";
import { RETENTION_NAMES, retentionSettings, retentionText } from "@/pages/settings/retention";

const BACKUP = "python manage.py backup /backups/today";

const COLUMNS: Column<Retention>[] = [
  {
    id: "data",
    label: "Data",
    className: "anywhere",
    cell: (retention) => (
      <>
        {RETENTION_NAMES[retention.what]}
        <div className="faint small">
          {retentionText(retention)}{" "}
          <span className="mono" title="Set in the server's environment">
            {retentionSettings(retention).join(" ")}
          </span>
        </div>
      </>
    ),
  },
  {
    id: "size",
    label: "Size",
    isNumber: true,
    value: ({ size_bytes }) => size_bytes,
    cell: ({ size_bytes }) => bytes(size_bytes),
  },
  {
    id: "count",
    label: "Count",
    isNumber: true,
    value: (retention) => retention.count,
    cell: (retention) => `${retention.is_estimate ? "≈ " : ""}${count(retention.count)}`,
  },
  {
    id: "oldest",
    label: "Oldest",
    isNumber: true,
    value: ({ oldest_at }) => oldest_at,
    cell: ({ oldest_at }) => (oldest_at ? <Age at={oldest_at} /> : "–"),
  },
];

/** Retained data with its limits and current size. */
export function RetentionPanel() {
  const { data, error } = useQuery(retentionQuery);
  return (
    <Panel title="Data retention" note="limits and current size">
      <DataTable label="Data retention" rows={data?.results} error={error} columns={COLUMNS} keyOf={({ what }) => what} />
      {data && (
        <>
          <p className="small soft">
            {data.backed_up_at ? (
              <>
                Last backup: <Age at={data.backed_up_at} suffix=" ago" />.
              </>
            ) : (
              "No backup has been made."
            )}{" "}
            To create a backup of the running server:
          </p>
          <Command text={BACKUP} />
        </>
      )}
    </Panel>
  );
}
