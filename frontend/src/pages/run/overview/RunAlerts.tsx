import { Link } from "@tanstack/react-router";
import { type AlertRow, RUN_ALERTS_SHOWN } from "@/api/alerts";
import type { RunDetail } from "@/api/types";
import { Age } from "@/components/Age";
import { AlertChip } from "@/components/AlertChip";
import { visible } from "@/format";
import classes from "./overview.module.css";

/** Open alerts of the run; nothing if there are none. */
export function RunAlerts({ run, rows }: { run: RunDetail; rows: AlertRow[] }) {
  if (rows.length === 0) return null;
  return (
    <section className={`panel span-12 ${classes.alerts}`} aria-label="Alerts of this run">
      <ul>
        {rows.slice(0, RUN_ALERTS_SHOWN).map((alert) => (
          <li key={alert.id} data-alert-id={alert.id}>
            <AlertChip alert={alert} />
            <Link to="/alerts" search={{ alert: alert.id }} className="anywhere">
              {visible(alert.message)}
            </Link>
            <span className="soft small nowrap">
              <Age at={alert.first_seen_at} suffix=" ago" />
            </span>
          </li>
        ))}
      </ul>
      {rows.length > RUN_ALERTS_SHOWN && (
        <Link to="/alerts" search={{ run: run.name }} className="small">
          All alerts of this run
        </Link>
      )}
    </section>
  );
}
