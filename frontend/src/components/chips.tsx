/** Chips: states of runs and workers, alerts, deliveries and projects. */

import { Badge, type BadgeProps, Text, VisuallyHidden } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { Folder } from "lucide-react";
import type { ComponentProps, ReactNode } from "react";
import type { AlertDelivery, AlertRow, AlertSummary } from "@/api/alerts";
import { term } from "@/components/filter/suggest";
import { Hint, useNow } from "@/components/inline";
import { ageSeconds, counted, duration, number, utc, visible } from "@/format";
import { useIsOutdated } from "@/live/live";
import { honest, isOver, type Look, lookOf, RUN_PROOF_SECONDS } from "@/theme/chips";

type Props = BadgeProps & Omit<ComponentProps<"button">, keyof BadgeProps> & { tone: string; sign: string; component?: "button" };

/** A short label with colour and symbol. */
export function Chip({ tone, sign, component, ...rest }: Props) {
  return (
    <Badge
      size="lg"
      radius="xl"
      fw="bold"
      fz="sm"
      color={tone}
      data-tone={tone}
      component={component ?? "span"}
      leftSection={<span aria-hidden="true">{sign}</span>}
      styles={{ root: { fontSize: "var(--mantine-font-size-sm)" }, label: { whiteSpace: "nowrap" } }}
      {...(rest as object)}
    />
  );
}

/** The age beside the word of a chip. */
export function ChipAge({ children }: { children: ReactNode }) {
  return (
    <Text span inherit fw="normal" data-age>
      {" · "}
      {children}
    </Text>
  );
}

type StateChipProps = {
  state: string;
  /** Server time of the last heartbeat that confirmed the state. */
  provenAt?: string | null;
  /** Without a heartbeat for this long the chip shows `unknown`. */
  allowedSeconds?: number;
  /** Server time at which the state began. */
  since?: string | null;
  reason?: string;
};

const UNREACHED = "The server does not answer.";

/** A state and its duration. The heartbeat is shown only when it is late; without the server, no state claims life. */
export function StateChip({ state, provenAt, allowedSeconds, since, reason }: StateChipProps) {
  const now = useNow();
  const isOutdated = useIsOutdated();
  const proof = ageSeconds(provenAt, now);
  const heard = allowedSeconds === undefined ? state : honest(state, proof, allowedSeconds);
  const shown = isOutdated ? honest(state, Infinity, 0) : heard;
  const isUnreached = isOutdated && shown !== state;
  const look = lookOf(shown);
  const { tone, sign } = look;
  const meaning = isUnreached ? UNREACHED : look.meaning;
  // The tooltip's reason, also for screen readers.
  const why = reason || (shown === "unknown" ? meaning : "");
  // The server also reports states as unknown.
  const isLate = shown === "unknown" && proof !== null;
  const lasting = since && !isLate && !isUnreached ? duration(ageSeconds(since, now)) : "";
  const lines = [
    shown === state ? meaning : `Last known state: ${state}. ${meaning}`,
    reason ? `Reason: ${visible(reason)}` : "",
    since && !isLate && !isUnreached ? `Since ${utc(since)}` : "",
    provenAt ? `Last heartbeat ${utc(provenAt)}` : "",
  ].filter(Boolean);
  return (
    <>
      <Hint label={lines.map((line) => <div key={line}>{line}</div>)}>
        <Chip tone={tone} sign={sign} tabIndex={0} data-state={shown}>
          {shown}
          {lasting && <ChipAge>{lasting}</ChipAge>}
          {why && <VisuallyHidden>, {visible(why)}</VisuallyHidden>}
        </Chip>
      </Hint>
      {isLate && (
        <Text span c="dimmed" size="xs" data-late>
          {" "}
          last heartbeat {duration(proof)} ago
        </Text>
      )}
    </>
  );
}

const PROVEN_BY_FLEET = new Set(["running", "paused", "draining"]);

type RunChipProps = {
  run: { kind: string; status: string; status_changed_at: string; status_reason?: string };
  /** Server time of the fleet's last heartbeat; null if none is expected. */
  observedAt: string | null | undefined;
  /** Reason for the fleet's state, or why the state is unknown. */
  reason?: string;
  /** A longer threshold for views that refresh less often than lists. */
  allowedSeconds?: number;
};

/**
 * Whether the shown figures of a run are known: the connection brings values, `isUnread` requests have not failed, and an
 * expected fleet reported recently. Figures of ended runs do not change.
 */
export function useIsProven(run: RunChipProps["run"] | undefined, observedAt: RunChipProps["observedAt"], isUnread = false): boolean {
  const now = useNow();
  const isOutdated = useIsOutdated();
  if (!run || isOver(run.status)) return true;
  if (isOutdated || isUnread) return false;
  if (run.kind === "outside" || !PROVEN_BY_FLEET.has(run.status) || !observedAt) return true;
  return honest(run.status, ageSeconds(observedAt, now), RUN_PROOF_SECONDS) !== "unknown";
}

/** A run's state and its duration; `unknown` if an expected fleet does not report. */
export function RunChip({ run, observedAt, reason = "", allowedSeconds = RUN_PROOF_SECONDS }: RunChipProps) {
  const now = useNow();
  const known = { state: run.status, since: run.status_changed_at };
  const stated = run.status_reason || reason;
  if (run.kind === "outside" || !PROVEN_BY_FLEET.has(run.status) || !observedAt) {
    return <StateChip {...known} reason={stated} />;
  }
  // The reason for a pause does not explain a silent fleet.
  const isSilent = honest(run.status, ageSeconds(observedAt, now), allowedSeconds) === "unknown";
  const why = isSilent ? reason || "no heartbeats from the fleet" : stated;
  return <StateChip {...known} provenAt={observedAt} allowedSeconds={allowedSeconds} reason={why} />;
}

const OPEN: Record<AlertRow["severity"], Look> = {
  error: { tone: "bad", sign: "✕", meaning: "Data or time is being lost. Not acknowledged." },
  warning: { tone: "held", sign: "▲", meaning: "Needs attention before data or time is lost. Not acknowledged." },
};

/** The label and style of an alert: its severity while open, then its state. */
export function alertLook(alert: Pick<AlertRow, "severity" | "state"> & Partial<Pick<AlertRow, "is_snoozed">>): Look & { word: string } {
  if (alert.state === "open" && alert.is_snoozed)
    return { tone: "quiet", sign: "☾", meaning: `Still active (${alert.severity}); notifications are suspended.`, word: "snoozed" };
  if (alert.state === "open") return { ...OPEN[alert.severity], word: alert.severity };
  if (alert.state === "acknowledged") return { tone: "busy", sign: "◔", meaning: "Acknowledged; still active.", word: "acknowledged" };
  return { tone: "quiet", sign: "✓", meaning: "The condition has cleared, or a user resolved it.", word: "resolved" };
}

/** The dashboard URL of an alert's subject; null if it has no page. */
export function alertUrl(alert: Pick<AlertRow, "kind" | "run" | "subject"> & Partial<Pick<AlertRow, "metric">>): string | null {
  if (alert.kind === "jobs_down" || alert.kind === "part_exited") return "/cluster";
  if (!alert.run) return null;
  const run = `/runs/${encodeURIComponent(alert.run)}`;
  const subject = encodeURIComponent(alert.subject);
  switch (alert.kind) {
    case "batch_quarantined":
      return `${run}/queue?batch=${subject}`;
    case "lease_lapsed":
      return `${run}/queue?state=returned`;
    case "training_stalled":
    case "stale_drops":
    case "queue_full":
    case "items_corrupt":
      return `${run}/queue`;
    case "fleet_silent":
    case "workers_down":
    case "run_not_starting":
      return `${run}/fleet`;
    case "run_failed":
      return `${run}/logs`;
    case "outage":
      return subject ? `${run}/curriculum?lesson=${subject}` : run;
    case "lesson_stalled":
    case "lesson_regressed":
      return `${run}/curriculum?lesson=${subject}`;
    case "rule":
      return `${run}/metrics?pin=${encodeURIComponent(alert.metric ?? "")}&x=time`;
    default:
      return run;
  }
}

/** Accessible text of the alert bell. */
export function countsText({ errors, warnings }: Pick<AlertSummary, "errors" | "warnings">): string {
  const parts = [errors > 0 && counted(errors, "error"), warnings > 0 && counted(warnings, "warning")].filter(Boolean);
  return parts.length > 0 ? `Alerts: ${parts.join(", ")}` : "Alerts: none open";
}

/** The severity of an alert, or its state once handled. */
export function AlertChip({ alert }: { alert: Pick<AlertRow, "severity" | "state"> & Partial<Pick<AlertRow, "is_snoozed">> }) {
  const { tone, sign, word, meaning } = alertLook(alert);
  return (
    <Hint label={meaning}>
      <Chip tone={tone} sign={sign} tabIndex={0} data-alert={word}>
        {word}
        {alert.state !== "open" && alert.severity === "error" && <ChipAge>error</ChipAge>}
      </Chip>
    </Hint>
  );
}

const LOOKS: Record<AlertDelivery["state"], { tone: string; sign: string }> = {
  waiting: { tone: "busy", sign: "◔" },
  delivered: { tone: "good", sign: "✓" },
  "given up": { tone: "bad", sign: "✕" },
};

/** The outcome of a delivery: its state, the webhook's response and latency, or the error. */
export function DeliveryOutcome({ delivery }: { delivery: AlertDelivery }) {
  const { tone, sign } = LOOKS[delivery.state];
  const { last_status: status, last_took_ms: took } = delivery;
  const facts = [status === null ? "" : `HTTP ${status}`, took === null ? "" : `after ${number(took)} ms`].filter(Boolean);
  // An error status needs no further explanation.
  const why = status === null && delivery.state !== "delivered" ? delivery.last_error : "";
  return (
    <>
      <Chip tone={tone} sign={sign} data-delivery={delivery.state}>
        {delivery.state}
      </Chip>
      <Text c="soft" size="sm">
        {facts.join(" ")} {visible(why)}
      </Text>
    </>
  );
}

/** The project of a run, linked to its runs. */
export function ProjectTag({ name }: { name: string }) {
  return (
    <Link to="/runs" search={{ q: term("project", name) }} title={`Project ${visible(name)}`}>
      <Badge component="span" maw="100%" style={{ cursor: "pointer" }} leftSection={<Folder size={12} aria-hidden="true" />}>
        {visible(name)}
      </Badge>
    </Link>
  );
}
