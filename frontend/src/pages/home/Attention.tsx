import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { CircleCheck } from "lucide-react";
import type { AlertRow, AlertSummary } from "@/api/alerts";
import { Age } from "@/components/Age";
import { AlertChip } from "@/components/AlertChip";
import { AppLink } from "@/components/AppLink";
import { alertUrl } from "@/components/alertStyles";
import { RunChip } from "@/components/RunChip";
import { visible } from "@/format";
import type { Concern } from "@/pages/home/attention";
import css from "./home.module.css";

const CONCERNS_AT_MOST = 5;

function AlertLine({ alert }: { alert: AlertRow }) {
  const place = alertUrl(alert);
  return (
    <li className={css.item} data-row data-attention={alert.kind}>
      <AlertChip alert={alert} />
      <span className={`anywhere ${css.words}`}>
        <Link to="/alerts" search={{ alert: alert.id }} className="strong" data-open>
          {visible(alert.message)}
        </Link>
        <span className="soft small"> {alert.advice}</span>
      </span>
      <span className={`soft small ${css.aside}`}>
        <Age at={alert.first_seen_at} suffix=" ago" />
        {place && <AppLink to={place}>View</AppLink>}
      </span>
    </li>
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

/** Open alerts, errors first, then silent runs and runs paused for long. */
export function Attention({ summary, concerns }: Props) {
  const open = summary ? summary.errors + summary.warnings : 0;
  const left = open - (summary?.newest.length ?? 0);
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
        {summary?.newest.map((alert) => (
          <AlertLine key={alert.id} alert={alert} />
        ))}
        {concerns.slice(0, CONCERNS_AT_MOST).map((concern) => (
          <ConcernLine key={concern.run.id} {...concern} />
        ))}
      </ul>
    </section>
  );
}
