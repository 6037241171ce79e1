import { Group, Space } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useAlertSummary } from "@/api/alerts";
import { AlertChip, RunChip } from "@/components/chips";
import { isLoss, LossOfRuns } from "@/components/DataLoss";
import { useNow } from "@/components/inline";
import { number, visible } from "@/format";
import { useLiveRuns, useTopicError } from "@/live/live";
import { concerns } from "@/pages/runs/concerns";

/** What needs attention on the server, in one line: the newest alert, errors first, and silent runs or runs paused for long. */
export function AttentionStrip() {
  const summary = useAlertSummary();
  const error = useTopicError("alerts");
  const now = useNow();
  const groups = summary?.groups ?? [];
  // A loss of data stands above the line.
  const alert = groups.find((group) => !isLoss(group));
  const open = summary ? summary.errors + summary.warnings : 0;
  const [concern, ...further] = concerns(useLiveRuns(), groups, now);
  return (
    <>
      <LossOfRuns />
      <Group component="section" gap="md" wrap="nowrap" mih="2.25rem" mb="xs" fz="sm" aria-label="Needs attention">
        {alert && (
          <Group gap="xs" wrap="nowrap" miw={0} data-attention={alert.kind}>
            <AlertChip alert={alert} />
            <Link to="/alerts" search={{ alert: alert.id }} className="truncate" title={visible(alert.message)}>
              {visible(alert.message)}
            </Link>
          </Group>
        )}
        {concern && (
          <Group gap="xs" wrap="nowrap" miw={0} className={alert && "mantine-visible-from-sm"} data-attention={concern.run.name}>
            <RunChip run={concern.run} observedAt={concern.run.observed_at} reason={concern.run.fleet_reason} />
            <Link to="/runs/$name" params={{ name: concern.run.name }} className="truncate" title={visible(concern.why)}>
              {concern.run.name}: {visible(concern.why)}
            </Link>
            {further.length > 0 && <span className="soft nowrap">and {number(further.length)} more</span>}
          </Group>
        )}
        {summary && groups.length === 0 && !concern && (
          <span className="soft" role="status">
            ✓ Nothing needs your attention.
          </span>
        )}
        {error && !summary && <span className="held">Alerts unavailable: {error.detail}</span>}
        <Space flex={1} />
        {summary && (
          <Link to="/alerts" className="nowrap" style={{ lineHeight: "1.5rem" }}>
            {open > 0 ? `Alerts: ${number(open)} open` : "Alerts"}
          </Link>
        )}
      </Group>
    </>
  );
}
