import { Button } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleCheck } from "lucide-react";
import { type ReactNode, useState } from "react";
import { type AlertGroup, type AlertRow, type AlertSummary, alertsQuery } from "@/api/alerts";
import { Age } from "@/components/Age";
import { AlertChip } from "@/components/AlertChip";
import { AppLink } from "@/components/AppLink";
import { alertUrl } from "@/components/alertStyles";
import { isLoss } from "@/components/DataLoss";
import { ErrorState } from "@/components/ErrorState";
import { RunChip } from "@/components/RunChip";
import { counted, visible } from "@/format";
import type { Concern } from "@/pages/home/attention";
import css from "./home.module.css";

const CONCERNS_AT_MOST = 5;

type LineProps = { alert: AlertRow; isFurther?: boolean; children?: ReactNode };

function AlertLine({ alert, isFurther = false, children }: LineProps) {
  const place = alertUrl(alert);
  return (
    <li className={`${css.item} ${isFurther ? css.further : ""}`} data-row data-attention={alert.kind}>
      <AlertChip alert={alert} />
      <span className={`anywhere ${css.words}`}>
        <Link to="/alerts" search={{ alert: alert.id }} className="strong" data-open>
          {visible(alert.message)}
        </Link>
        <span className="soft small"> {alert.advice}</span>
        {children}
      </span>
      <span className={`soft small ${css.aside}`}>
        <Age at={alert.first_seen_at} suffix=" ago" />
        {place && <AppLink to={place}>View</AppLink>}
      </span>
    </li>
  );
}

/** The other open alerts of a kind, or of a rule. */
function Further({ alert }: { alert: AlertRow }) {
  const { data, error, isPending } = useInfiniteQuery(alertsQuery({ kind: alert.kind, state: "open" }));
  if (error && !data) return <ErrorState title="Alerts unavailable" error={error} />;
  const isOther = (row: AlertRow) => row.id !== alert.id && !row.is_snoozed && (alert.kind !== "rule" || row.subject === alert.subject);
  return (
    <>
      {isPending && <li className={`faint small ${css.item}`}>Loading…</li>}
      {data?.pages[0]?.results.filter(isOther).map((row) => (
        <AlertLine key={row.id} alert={row} isFurther />
      ))}
    </>
  );
}

/** The newest alert of a kind, and on request the others. */
function GroupLines({ alert }: { alert: AlertGroup }) {
  const [isOpen, setOpen] = useState(false);
  const others = alert.count - 1;
  return (
    <>
      <AlertLine alert={alert}>
        {others > 0 && (
          <>
            {" "}
            <button type="button" className="link-button small nowrap" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
              {isOpen ? "Hide the others" : `${counted(others, "more alert")} of this kind`}
            </button>
          </>
        )}
      </AlertLine>
      {isOpen && <Further alert={alert} />}
    </>
  );
}

function ConcernLine({ run, why }: Concern) {
  return (
    <li className={css.item} data-row data-attention={run.name}>
      <RunChip run={run} observedAt={run.observed_at} reason={run.fleet_reason} />
      <span className={`anywhere ${css.words}`}>
        <Link to="/runs/$name" params={{ name: run.name }} className="strong" data-open>
          {run.name}
        </Link>
        <span className="soft small"> {visible(why)}</span>
      </span>
      <span className={css.aside} />
    </li>
  );
}

type Props = { summary: AlertSummary | undefined; concerns: Concern[] };

/** Open alerts by kind, errors first, except losses of data, which stand above; then silent runs and runs paused for long. */
export function Attention({ summary, concerns }: Props) {
  const open = summary ? summary.errors + summary.warnings : 0;
  const all = summary?.groups ?? [];
  const left = open - all.reduce((sum, { count }) => sum + count, 0);
  const groups = all.filter((group) => !isLoss(group));
  if (summary && open === 0 && concerns.length === 0) {
    return (
      <p className={css.well} role="status">
        <CircleCheck size={17} strokeWidth={1.8} aria-hidden="true" />
        Nothing needs your attention.
        {summary.acknowledged > 0 && (
          <Link to="/alerts" search={{ state: "acknowledged" }}>
            {summary.acknowledged} acknowledged
          </Link>
        )}
      </p>
    );
  }
  if (groups.length === 0 && concerns.length === 0 && left === 0) return null;
  return (
    <section className="panel" aria-label="Needs attention">
      <div className="panel-head">
        <h2>Needs attention</h2>
        <span className="spacer" />
        <Button component={Link} to="/alerts" size="compact-sm" variant="default">
          {left > 0 ? `${left} more` : "All alerts"}
        </Button>
      </div>
      <ul className={css.items}>
        {groups.map((group) => (
          <GroupLines key={`${group.kind} ${group.kind === "rule" ? group.subject : ""}`} alert={group} />
        ))}
        {concerns.slice(0, CONCERNS_AT_MOST).map((concern) => (
          <ConcernLine key={concern.run.id} {...concern} />
        ))}
      </ul>
    </section>
  );
}
