import { Box, Button, Paper, SegmentedControl, Select, SimpleGrid, Space, TextInput, UnstyledButton, VisuallyHidden } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import {
  type AlertGroup,
  type AskedAlerts,
  alertsQuery,
  type Snooze,
  snoozesQuery,
  useAlertKinds,
  useAlertSummary,
  useAlertsRefresh,
  useEndSnooze,
} from "@/api/alerts";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import { AlertChip } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { ReasonDialog } from "@/components/Dialog";
import { Age, Moment } from "@/components/inline";
import { onDemand } from "@/components/onDemand";
import { EmptyState, PageTitle, Skeletons, TextButton } from "@/components/panels";
import { counted, number, visible } from "@/format";
import { AlertDrawer } from "@/pages/alerts/AlertDrawer";
import type { AlertsSearch } from "@/pages/alerts/search";

const RulesPanel = onDemand(() => import("@/pages/alerts/RulesPanel"), "RulesPanel", <Skeletons heights={[260]} />);

/** What the page shows: alerts in a state, or another list. */
const LISTS: { value: string; label: string; search: AlertsSearch }[] = [
  { value: "unresolved", label: "Unresolved", search: {} },
  { value: "acknowledged", label: "Acknowledged", search: { state: "acknowledged" } },
  { value: "resolved", label: "Resolved", search: { state: "resolved" } },
  { value: "all", label: "All", search: { state: "all" } },
  { value: "snoozed", label: "Snoozed", search: { view: "snoozed" } },
  { value: "rules", label: "Rules", search: { view: "rules" } },
];
const SEVERITIES = [
  { value: "error", label: "Errors" },
  { value: "warning", label: "Warnings" },
];

type Look = (changes: AlertsSearch, replace?: boolean) => void;

function columnsOf(look: Look): Column<AlertGroup>[] {
  return [
    { label: "State", className: "mantine-visible-from-sm", cell: (alert) => <AlertChip alert={alert} /> },
    {
      label: "Alert",
      className: "anywhere",
      cell: (alert) => (
        <>
          <div className="mantine-hidden-from-sm">
            <AlertChip alert={alert} />
          </div>
          <UnstyledButton data-open onClick={() => look({ alert: alert.id }, false)}>
            {visible(alert.message)}
          </UnstyledButton>
          <div className="small soft">
            {visible(alert.title)}
            {alert.is_snoozed && " · snoozed"}
            {alert.state === "acknowledged" && ` · acknowledged by ${visible(alert.acknowledged_by)}`}
            {alert.state === "acknowledged" && alert.acknowledged_reason && `: “${visible(alert.acknowledged_reason)}”`}
          </div>
          {alert.count > 1 && (
            <TextButton className="nowrap" onClick={() => look({ kind: alert.kind }, false)}>
              {counted(alert.count - 1, "more alert")} of this kind
            </TextButton>
          )}
        </>
      ),
    },
    {
      label: "Run",
      className: "mantine-visible-from-sm",
      value: ({ run }) => run,
      cell: ({ run }) =>
        run ? (
          <Link to="/runs/$name" params={{ name: run }} data-strong>
            {run}
          </Link>
        ) : (
          <span className="faint">server</span>
        ),
    },
    {
      label: "Since",
      className: "soft",
      isNumber: true,
      value: ({ first_seen_at }) => first_seen_at,
      cell: ({ first_seen_at }) => <Age at={first_seen_at} suffix=" ago" />,
    },
    {
      label: "Cleared",
      className: "soft mantine-visible-from-sm",
      isNumber: true,
      value: ({ cleared_at, resolved_at }) => cleared_at ?? resolved_at,
      cell: ({ cleared_at, resolved_at }) =>
        cleared_at || resolved_at ? <Age at={cleared_at ?? resolved_at} suffix=" ago" /> : <span className="faint">ongoing</span>,
    },
    {
      label: "Times",
      className: "mantine-visible-from-sm",
      isNumber: true,
      value: ({ times_seen }) => times_seen,
      title: "Number of times the alert fired; a continuous condition counts once",
    },
  ];
}

function Filters({ asked, look }: { asked: AskedAlerts; look: Look }) {
  const kinds = useAlertKinds();
  return (
    <SimpleGrid cols={{ base: 2, sm: 4 }} spacing="xs" px="md" py="sm">
      <TextInput
        size="xs"
        label="Text"
        placeholder="in the message"
        value={asked.text ?? ""}
        data-filter
        onChange={(event) => look({ text: event.currentTarget.value })}
      />
      <TextInput
        size="xs"
        label="Run"
        placeholder="full name"
        value={asked.run ?? ""}
        onChange={(event) => look({ run: event.currentTarget.value })}
      />
      <Select
        size="xs"
        label="Kind"
        placeholder="any"
        clearable
        searchable
        data={kinds}
        value={asked.kind ?? null}
        onChange={(kind) => look({ kind: kind ?? undefined })}
      />
      <Select
        size="xs"
        label="Severity"
        placeholder="any"
        clearable
        data={SEVERITIES}
        value={asked.severity ?? null}
        onChange={(severity) => look({ severity: (severity as AskedAlerts["severity"]) ?? undefined })}
      />
    </SimpleGrid>
  );
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
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

/** Alerts, newest first; unresolved ones of a kind in one row, until the kind is selected. */
function AlertList({ asked, opened, look }: { asked: AskedAlerts; opened: number | undefined; look: Look }) {
  const pages = useInfiniteQuery({ ...alertsQuery(asked), refetchInterval: useAlertsRefresh() });
  return (
    <Paper component="section" aria-label="Alerts, newest first">
      <Filters asked={asked} look={look} />
      <DataTable
        label="Alerts, newest first"
        rows={pages.data?.pages.flatMap(({ results }) => results)}
        error={pages.error}
        columns={columnsOf(look)}
        keyOf={({ id }) => id}
        attributes={({ id }) => ({ "data-opens": true, "data-row": true, "data-alert-id": id })}
        empty={<Nothing isFiltered={Object.values(asked).some(Boolean)} />}
        pages={pages}
      />
      {opened !== undefined && <AlertDrawer key={opened} id={opened} onClose={() => look({ alert: undefined }, false)} />}
    </Paper>
  );
}

function EndSnooze({ snooze, onClose }: { snooze: Snooze; onClose: () => void }) {
  const end = useEndSnooze(snooze.id);
  return (
    <ReasonDialog
      title={`End the snooze of ${visible(snooze.title)}?`}
      submit="End snooze"
      asking={end}
      refused="Snooze not ended"
      onClose={onClose}
      onSubmit={(reason) => end.mutate(reason, { onSuccess: onClose })}
    >
      <p>Alerts that are still active notify within seconds.</p>
    </ReasonDialog>
  );
}

const SNOOZES: Column<Snooze>[] = [
  {
    label: "Snoozed",
    className: "anywhere",
    value: ({ title }) => title,
    cell: ({ alert, rule, run, title, message }) => (
      <>
        <Link to="/alerts" search={alert === null ? { view: "rules", rule: rule ?? undefined } : { alert }} data-open>
          {visible((alert !== null && message) || title)}
        </Link>
        <div className="small soft">
          {rule !== null ? "all alerts of the rule" : visible(title)}
          {run && ` · ${run}`}
        </div>
      </>
    ),
  },
  {
    label: "Until",
    className: "soft",
    isNumber: true,
    value: ({ until }) => until,
    cell: ({ until }) => (until ? <Moment at={until} /> : "until ended"),
  },
  {
    label: "Reason",
    className: "anywhere",
    cell: ({ reason, created_by, created_at }) => (
      <>
        “{visible(reason)}”
        <div className="small soft">
          {visible(created_by)}, <Age at={created_at} suffix=" ago" />
        </div>
      </>
    ),
  },
];

/** The snoozed alerts and rules. */
function SnoozedList() {
  const { data, error } = useQuery(snoozesQuery);
  const mayOperate = useMayOperate();
  const [ending, setEnding] = useState<Snooze | null>(null);
  const end = (snooze: Snooze) => (
    <Button
      size="compact-sm"
      variant="default"
      disabled={!mayOperate}
      title={mayOperate ? undefined : TAKES_OPERATOR}
      aria-label={`End the snooze of ${visible(snooze.title)}`}
      onClick={() => setEnding(snooze)}
    >
      End…
    </Button>
  );
  return (
    <Paper component="section" aria-label="Snoozed alerts and rules">
      <DataTable
        label="Snoozes"
        rows={data}
        error={error}
        columns={[...SNOOZES, { id: "end", label: <VisuallyHidden>Actions</VisuallyHidden>, isNumber: true, cell: end }]}
        keyOf={({ id }) => id}
        attributes={({ id }) => ({ "data-row": true, "data-snooze": id })}
        empty={
          <EmptyState title="Nothing is snoozed" action={<Link to="/alerts">Open alerts</Link>}>
            Snooze an alert, or all alerts of a rule, to suspend its notifications for a time. It stays visible.
          </EmptyState>
        }
      />
      {ending && <EndSnooze snooze={ending} onClose={() => setEnding(null)} />}
    </Paper>
  );
}

/** The alerts page: alerts by state, snoozed alerts, and rules. */
export function AlertsPage() {
  const { alert: opened, view, rule, ...asked } = useSearch({ from: "/shell/alerts" });
  const navigate = useNavigate({ from: "/alerts" });
  const summary = useAlertSummary();
  const look: Look = (changes, replace = true) =>
    void navigate({ search: (now) => Object.fromEntries(Object.entries({ ...now, ...changes }).filter(([, value]) => value)), replace });
  const show = (list: string) => {
    const search = LISTS.find(({ value }) => value === list)?.search ?? {};
    // The filters of the alerts stay when another state is chosen.
    if (search.view || view) void navigate({ search });
    else look({ state: undefined, ...search });
  };
  return (
    <>
      <PageTitle title="Alerts">
        <Box maw="100%" style={{ overflowX: "auto" }}>
          <SegmentedControl
            size="xs"
            aria-label="List"
            data={LISTS.map(({ value, label }) => ({ value, label }))}
            value={view ?? asked.state ?? "unresolved"}
            onChange={show}
          />
        </Box>
        <Space flex={1} />
        {summary && (
          <span className="soft small" data-summary>
            {counted(summary.errors, "error")}, {counted(summary.warnings, "warning")} open · {number(summary.acknowledged)} acknowledged
            {summary.snoozed > 0 && ` · ${number(summary.snoozed)} snoozed`}
          </span>
        )}
      </PageTitle>
      {view === "rules" && <RulesPanel opened={rule} onOpen={(next) => look({ rule: next }, false)} />}
      {view === "snoozed" && <SnoozedList />}
      {view === undefined && <AlertList asked={asked} opened={opened} look={look} />}
    </>
  );
}
