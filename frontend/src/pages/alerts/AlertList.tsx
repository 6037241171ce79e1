import { Select, TextInput } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type AlertGroup, type AskedAlerts, alertsQuery, useAlertKinds } from "@/api/alerts";
import { Age } from "@/components/Age";
import { AlertChip } from "@/components/AlertChip";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { ShowMore } from "@/components/ShowMore";
import { Skeletons } from "@/components/Skeletons";
import { Table } from "@/components/Table";
import { counted, number, visible } from "@/format";
import { AlertDrawer } from "@/pages/alerts/AlertDrawer";
import type { AlertsSearch } from "@/pages/alerts/search";
import css from "./alerts.module.css";

const SEVERITIES = [
  { value: "error", label: "Errors" },
  { value: "warning", label: "Warnings" },
];

function Line({ alert, onOpen, onExpand }: { alert: AlertGroup; onOpen: () => void; onExpand: () => void }) {
  const over = alert.cleared_at ?? alert.resolved_at;
  return (
    <tr data-row data-alert-id={alert.id} className="opens">
      <td className="wide-only">
        <AlertChip alert={alert} />
      </td>
      <td className={`anywhere ${css.what}`}>
        <div className="narrow-only">
          <AlertChip alert={alert} />
        </div>
        <button type="button" className="row-open" data-open onClick={onOpen}>
          {visible(alert.message)}
        </button>
        <div className="small soft">
          {visible(alert.title)}
          {alert.state === "acknowledged" && ` · acknowledged by ${visible(alert.acknowledged_by)}`}
          {alert.is_snoozed && " · snoozed"}
          {alert.acknowledged_reason && alert.state === "acknowledged" && `: “${visible(alert.acknowledged_reason)}”`}
        </div>
        {alert.count > 1 && (
          <div className={css.more}>
            <button type="button" className="link-button nowrap" onClick={onExpand}>
              {counted(alert.count - 1, "more alert")} of this kind
            </button>
          </div>
        )}
      </td>
      <td className={`wide-only ${css.run}`}>
        {alert.run ? (
          <Link to="/runs/$name" params={{ name: alert.run }} className="strong run-name">
            {alert.run}
          </Link>
        ) : (
          <span className="faint">server</span>
        )}
      </td>
      <td className="num soft">
        <Age at={alert.first_seen_at} suffix=" ago" />
      </td>
      <td className="num soft wide-only">{over ? <Age at={over} suffix=" ago" /> : <span className="faint">ongoing</span>}</td>
      <td className="num wide-only">{number(alert.times_seen)}</td>
    </tr>
  );
}

function Filters({ asked, onAsk }: { asked: AskedAlerts; onAsk: (changes: AlertsSearch) => void }) {
  const kinds = useAlertKinds();
  return (
    <div className={css.boxes}>
      <TextInput
        size="xs"
        label="Text"
        placeholder="in the message"
        data-filter
        value={asked.text ?? ""}
        onChange={(event) => onAsk({ text: event.currentTarget.value })}
      />
      <TextInput
        size="xs"
        label="Run"
        placeholder="full name"
        value={asked.run ?? ""}
        onChange={(event) => onAsk({ run: event.currentTarget.value })}
      />
      <Select
        size="xs"
        label="Kind"
        placeholder="any"
        clearable
        searchable
        data={kinds}
        value={asked.kind ?? null}
        onChange={(kind) => onAsk({ kind: (kind as AskedAlerts["kind"]) ?? undefined })}
      />
      <Select
        size="xs"
        label="Severity"
        placeholder="any"
        clearable
        data={SEVERITIES}
        value={asked.severity ?? null}
        onChange={(severity) => onAsk({ severity: (severity as AskedAlerts["severity"]) ?? undefined })}
      />
    </div>
  );
}

function Nothing({ asked }: { asked: AskedAlerts }) {
  const isFiltered = Object.values(asked).some(Boolean);
  return isFiltered ? (
    <EmptyState
      title="No matching alerts"
      action={
        <Link to="/alerts" search={{ state: "all" }}>
          All alerts
        </Link>
      }
    >
      Remove a filter above.
    </EmptyState>
  ) : (
    <EmptyState title="No open alerts" command="ROLLDECK_ALERT_WEBHOOKS=https://hooks.example.org/rolldeck make serve" guide="howto/alerts">
      Failed runs, silent fleets, quarantined batches, full disks: each alert fires within seconds and resolves when its condition clears.
      To send notifications to a webhook:
    </EmptyState>
  );
}

type Props = { asked: AskedAlerts; opened: number | undefined; look: (changes: AlertsSearch, replace?: boolean) => void };

/** Alerts, newest first; unresolved ones of a kind in one row, until the kind is selected. */
export function AlertList({ asked, opened, look }: Props) {
  const pages = useInfiniteQuery(alertsQuery(asked));
  const rows = pages.data?.pages.flatMap(({ results }) => results) ?? [];
  return (
    <>
      <section className="panel" aria-label="Alerts, newest first">
        <Filters asked={asked} onAsk={look} />
        {pages.isPending && <Skeletons heights={[260]} />}
        {pages.isError && <ErrorState title="Alerts unavailable" error={pages.error} onRetry={() => void pages.refetch()} />}
        {pages.isSuccess && rows.length === 0 && <Nothing asked={asked} />}
        {rows.length > 0 && (
          <Table
            columns={[
              { label: "State", className: "wide-only" },
              "Alert",
              { label: "Run", className: "wide-only" },
              { label: "Since", className: "num" },
              { label: "Cleared", className: "num wide-only" },
              { label: "Times", className: "num wide-only", title: "Number of times the alert fired; a continuous condition counts once" },
            ]}
          >
            {rows.map((row) => (
              <Line
                key={row.id}
                alert={row}
                onOpen={() => look({ alert: row.id }, false)}
                onExpand={() => look({ kind: row.kind }, false)}
              />
            ))}
          </Table>
        )}
        <ShowMore pages={pages} />
      </section>
      {opened !== undefined && <AlertDrawer key={opened} id={opened} onClose={() => look({ alert: undefined }, false)} />}
    </>
  );
}
