import { useQuery } from "@tanstack/react-query";
import { type Retention, retentionQuery } from "@/api/deployment";
import { Age } from "@/components/Age";
import { Command } from "@/components/Copying";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { Skeletons } from "@/components/Skeletons";
import { Table } from "@/components/Table";
import { bytes, count, percent } from "@/format";
import { fullness, RETENTION_NAMES, retentionSettings, retentionText } from "@/pages/settings/retention";
import css from "./settings.module.css";

const BACKUP = "python manage.py backup /backups/today";

function Row({ retention }: { retention: Retention }) {
  const share = fullness(retention);
  const settings = retentionSettings(retention);
  return (
    <tr data-retention={retention.what}>
      <td className="anywhere">
        {RETENTION_NAMES[retention.what]}
        <div className="faint small">
          {retentionText(retention)}
          {settings.length > 0 && (
            <span className={css.setting} title="Set in the server's environment">
              {" "}
              {settings.join(" ")}
            </span>
          )}
        </div>
      </td>
      <td className="num">
        {bytes(retention.size_bytes)}
        {share !== null && (
          <div className="faint small" title="Usage of the tightest limit">
            {percent(share)}
          </div>
        )}
      </td>
      <td className="num">
        {retention.is_estimate ? "≈ " : ""}
        {count(retention.count)}
      </td>
      <td className="num">{retention.oldest_at ? <Age at={retention.oldest_at} /> : "–"}</td>
    </tr>
  );
}

/** Retained data with its limits and current size. */
export function RetentionPanel() {
  const { data, error } = useQuery(retentionQuery);
  return (
    <Panel title="Data retention" note="limits and current size">
      {error && <ErrorState title="Data retention unavailable" error={error} />}
      {!data && !error && <Skeletons heights={[200]} />}
      {data && (
        <>
          <Table
            label="Data retention"
            columns={[
              "Data",
              { label: "Size", className: "num" },
              { label: "Count", className: "num" },
              { label: "Oldest", className: "num" },
            ]}
          >
            {data.results.map((each) => (
              <Row key={each.what} retention={each} />
            ))}
          </Table>
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
