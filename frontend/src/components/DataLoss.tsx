import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { type AlertKind, type AlertRow, useAlertAction, useAlertSummary } from "@/api/alerts";
import { useMayOperate } from "@/api/session";
import { Age } from "@/components/inline";
import { ErrorState } from "@/components/panels";
import { counted, visible } from "@/format";
import styles from "./dataLoss.module.css";

/** The kinds of alerts that state a loss of data. */
const LOSSES: ReadonlySet<AlertKind> = new Set(["pushes_refused", "stale_drops"]);

type LossAlert = AlertRow & { count?: number };

/** Whether an alert states a loss of data that no user has acknowledged. */
export const isLoss = ({ kind, state, is_snoozed }: Pick<AlertRow, "kind" | "state" | "is_snoozed">): boolean =>
  LOSSES.has(kind) && state === "open" && !is_snoozed;

function Loss({ alert }: { alert: LossAlert }) {
  const action = useAlertAction();
  const mayOperate = useMayOperate();
  const others = (alert.count ?? 1) - 1;
  return (
    <li data-loss={alert.kind}>
      <span className={styles.words}>
        <span aria-hidden="true">▲</span>{" "}
        <Link to="/alerts" search={{ alert: alert.id }} className="strong anywhere">
          {visible(alert.message)}
        </Link>{" "}
        <span className="soft small">
          <Age at={alert.first_seen_at} suffix=" ago" />
        </span>
        {others > 0 && (
          <Link to="/alerts" search={{ kind: alert.kind }} className="small nowrap">
            {` ${counted(others, "more alert")} of this kind`}
          </Link>
        )}
      </span>
      {mayOperate && (
        <Button
          size="compact-sm"
          variant="default"
          loading={action.isPending}
          onClick={() => action.mutate({ id: alert.id, verb: "acknowledge", reason: "" })}
        >
          Acknowledge
        </Button>
      )}
      {action.error && <ErrorState title="Not acknowledged" error={action.error} />}
    </li>
  );
}

/** Data that is being refused or dropped, until the loss ends or a user acknowledges it. */
export function DataLoss({ alerts }: { alerts: LossAlert[] }) {
  const losses = alerts.filter(isLoss);
  if (losses.length === 0) return null;
  return (
    <section aria-label="Loss of data">
      <ul className={styles.losses}>
        {losses.map((alert) => (
          <Loss key={alert.id} alert={alert} />
        ))}
      </ul>
    </section>
  );
}

/** The loss of data of some runs, or of all runs, as of the live summary. */
export function LossOfRuns({ runs }: { runs?: readonly string[] }) {
  const groups = useAlertSummary()?.groups ?? [];
  return <DataLoss alerts={runs ? groups.filter((group) => group.runs.some((run) => runs.includes(run))) : groups} />;
}
