import { Link } from "@tanstack/react-router";
import { Bell } from "lucide-react";
import { useAlertSummary } from "@/api/alerts";
import { countsText } from "@/components/alertStyles";
import { useOutage } from "@/components/Outage";
import css from "@/shell/shell.module.css";

const MOST = 99;

/** The number of open alerts, with a link to the alerts page. */
export function AlertsBell() {
  const summary = useAlertSummary();
  const { errors = 0, warnings = 0 } = summary ?? {};
  const open = errors + warnings;
  const silence = useOutage();
  const tone = silence ? "quiet" : errors > 0 ? "bad" : "held";
  // For voice control the accessible name must contain the visible text.
  const counts = countsText({ errors, warnings });
  const says = silence ? `${counts}, ${silence} ago: no server since` : counts;
  const shown = open > MOST ? `${MOST}+` : `${open}`;
  return (
    <>
      <Link
        to="/alerts"
        className={css.bell}
        aria-label={open > 0 ? `${says}; ${shown} open` : says}
        title={says}
        data-open-alerts={summary && open}
      >
        <Bell size={18} strokeWidth={1.8} aria-hidden="true" />
        {open > 0 && (
          <span className={`${css.bellCount} tone-${tone}`} aria-hidden="true">
            {shown}
          </span>
        )}
      </Link>
      <span className="unseen" role="status" aria-live="polite">
        {errors > 0 ? says : ""}
      </span>
    </>
  );
}
