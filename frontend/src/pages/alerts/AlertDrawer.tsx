import { Box, Button, type ButtonProps, Group, SegmentedControl, Text, Textarea } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import {
  type AlertAction,
  type AlertDelivery,
  type AlertDetail,
  alertQuery,
  useAlertAction,
  useAlertSummary,
  useSnooze,
} from "@/api/alerts";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import { AlertChip, alertUrl, DeliveryOutcome } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { ReasonDialog, SideSheet, useDraft } from "@/components/Dialog";
import { type Fact, Facts } from "@/components/Facts";
import { Age, AppLink, Moment } from "@/components/inline";
import { ErrorState, Skeletons } from "@/components/panels";
import { number, visible } from "@/format";

/** What happened to an alert, oldest first. */
function historyOf(alert: AlertDetail): Fact[] {
  const seen = alert.times_seen > 1 ? `Seen ${number(alert.times_seen)} times, last` : "Last seen";
  const steps: [what: string, at: string | null, who?: string, why?: string][] = [
    ["Fired", alert.first_seen_at],
    [seen, alert.cleared_at ? null : alert.last_seen_at],
    ["Acknowledged", alert.acknowledged_at, alert.acknowledged_by, alert.acknowledged_reason],
    ["Cleared", alert.cleared_at],
    ["Resolved", alert.resolved_at, alert.resolved_by, alert.resolved_reason],
  ];
  return steps
    .filter(([, at]) => at)
    .sort(([, one], [, other]) => Date.parse(one ?? "") - Date.parse(other ?? ""))
    .map(([what, at, who, why]) => [
      who ? `${what} by ${visible(who)}` : what,
      <span key={what}>
        <Age at={at} suffix=" ago" />
        {why && <span className="soft"> “{visible(why)}”</span>}
      </span>,
    ]);
}

const DELIVERIES: Column<AlertDelivery>[] = [
  { label: "Receiver", className: "anywhere", value: ({ target }) => target },
  {
    label: "Sent",
    cell: ({ change, created_at }) => (
      <>
        {change}{" "}
        <span className="faint">
          <Age at={created_at} suffix=" ago" />
        </span>
      </>
    ),
  },
  { label: "Outcome", className: "anywhere", cell: (row) => <DeliveryOutcome delivery={row} /> },
  { label: "Attempts", isNumber: true, value: ({ attempts }) => attempts },
];

/** Actions on an alert, with a reason. */
function Decide({ alert, onSnooze }: { alert: AlertDetail; onSnooze: () => void }) {
  const action = useAlertAction();
  const mayOperate = useMayOperate();
  const [reason, setReason] = useDraft(`alert:${alert.id}`);
  const group = useAlertSummary()?.groups.find(
    ({ kind, subject }) => kind === alert.kind && (kind !== "rule" || subject === alert.subject),
  );
  const count = group?.count ?? 1;
  const act = (verb: AlertAction["verb"], same_kind = false) =>
    action.mutate({ id: alert.id, verb, reason, same_kind }, { onSuccess: () => setReason("") });
  const isOpen = alert.state === "open";
  const buttons: (ButtonProps & { label: string; does: string; act: () => void; isFor?: boolean })[] = [
    { label: "Snooze…", does: "Suspend its notifications for a time.", act: onSnooze },
    { label: "Resolve", does: "Closes the alert. It does not fire again while the condition holds.", act: () => act("resolve") },
    {
      label: `Acknowledge all ${number(count)} of this kind`,
      isFor: isOpen && count > 1,
      does: "Marks every open alert of this kind as being worked on.",
      act: () => act("acknowledge", true),
    },
    {
      label: "Acknowledge",
      isFor: isOpen,
      variant: "filled",
      does: "Marks the alert as being worked on.",
      act: () => act("acknowledge"),
    },
  ];
  return (
    <Box my="md">
      {action.error && <ErrorState title="Action failed" error={action.error} />}
      {alert.state !== "resolved" && (
        <>
          <Textarea
            label="Reason"
            description="Recorded with your name, here and in the audit log."
            autosize
            minRows={2}
            maxLength={2000}
            disabled={!mayOperate}
            value={reason}
            onChange={(event) => setReason(event.currentTarget.value)}
          />
          <Group justify="flex-end" mt="sm">
            {buttons.map(
              ({ label, does, act: onClick, isFor = true, variant = "default" }) =>
                isFor && (
                  <Button
                    key={label}
                    variant={variant}
                    disabled={!mayOperate || action.isPending}
                    onClick={onClick}
                    title={mayOperate ? does : TAKES_OPERATOR}
                  >
                    {label}
                  </Button>
                ),
            )}
          </Group>
        </>
      )}
    </Box>
  );
}

const HOUR_MS = 3_600_000;
const UNTIL_ENDED = "0";
const LENGTHS = [
  { value: "1", label: "1 h" },
  { value: "8", label: "8 h" },
  { value: "24", label: "24 h" },
  { value: "168", label: "7 days" },
  { value: UNTIL_ENDED, label: "Until ended" },
];

/** Suspend the notifications of an alert. */
function SnoozeDialog({ alert: { id, title }, onClose }: { alert: AlertDetail; onClose: () => void }) {
  const [hours, setHours] = useState("8");
  const snooze = useSnooze();
  const until = () => (hours === UNTIL_ENDED ? null : new Date(Date.now() + Number(hours) * HOUR_MS).toISOString());
  return (
    <ReasonDialog
      title={`Snooze ${visible(title)}`}
      submit="Snooze"
      asking={snooze}
      refused="Not snoozed"
      needsReason
      onClose={onClose}
      onSubmit={(reason) => snooze.mutate({ alert: id, until: until(), reason }, { onSuccess: onClose })}
    >
      <p>It stays visible and sends no notifications. If it is still active when the snooze ends, it notifies then.</p>
      <SegmentedControl aria-label="Duration" data={LENGTHS} value={hours} onChange={setHours} />
    </ReasonDialog>
  );
}

/** One alert: actions, history and notifications. */
export function AlertDrawer({ id, onClose }: { id: number; onClose: () => void }) {
  const { data: alert, error } = useQuery(alertQuery(id));
  const [isSnoozing, setSnoozing] = useState(false);
  const place = alert && alertUrl(alert);
  return (
    <SideSheet onClose={onClose} size="lg" title={visible(alert?.title ?? "Alert")}>
      {error && <ErrorState title="Alert unavailable" error={error} />}
      {!alert && !error && <Skeletons heights={[90, 140]} />}
      {alert && (
        <>
          <p className="anywhere">
            <AlertChip alert={alert} /> {visible(alert.message)}
          </p>
          <Text c="var(--ink-soft)" mb="sm" className="anywhere" style={{ whiteSpace: "pre-wrap" }}>
            {visible(alert.advice)}
          </Text>
          <Group fw="bold">
            {place && <AppLink to={place}>View →</AppLink>}
            {alert.kind === "rule" && (
              <Link to="/alerts" search={{ view: "rules", rule: Number(alert.subject) }}>
                Rule →
              </Link>
            )}
          </Group>
          {alert.is_snoozed && (
            <p className="small held">
              Snoozed: no notifications until {alert.snoozed_until ? <Moment at={alert.snoozed_until} /> : "the snooze is ended"}.{" "}
              <Link to="/alerts" search={{ view: "snoozed" }}>
                All that is snoozed
              </Link>
            </p>
          )}
          {alert.state === "resolved" && !alert.cleared_at && (
            <p className="small held">The condition still holds. It notifies again only after it has cleared and returned.</p>
          )}
          <Decide alert={alert} onSnooze={() => setSnoozing(true)} />
          <h3>History</h3>
          <Facts facts={historyOf(alert)} />
          <h3>Notifications</h3>
          <DataTable
            label="Notifications"
            rows={alert.deliveries}
            columns={DELIVERIES}
            keyOf={({ id: delivery }) => delivery}
            empty={
              <p className="faint small">No notifications were sent: no webhook or mailbox is configured, or the alert was snoozed.</p>
            }
          />
          {isSnoozing && <SnoozeDialog alert={alert} onClose={() => setSnoozing(false)} />}
        </>
      )}
    </SideSheet>
  );
}
