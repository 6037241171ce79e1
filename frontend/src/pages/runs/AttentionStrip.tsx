import { Space } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useAlertSummary } from "@/api/alerts";
import { AlertChip, RunChip } from "@/components/chips";
import { isLoss, LossOfRuns } from "@/components/DataLoss";
import { useNow } from "@/components/inline";
import { number, visible } from "@/format";
import { useLiveRuns, useTopicError } from "@/live/live";
import { concerns } from "@/pages/runs/concerns";
import css from "./attention.module.css";

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
      <section className={css.strip} aria-label="Needs attention">
        {alert && (
          <span className={css.item} data-attention={alert.kind}>
            <AlertChip alert={alert} />
            <Link to="/alerts" search={{ alert: alert.id }} className={css.words} title={visible(alert.message)}>
              {visible(alert.message)}
            </Link>
          </span>
        )}
        {concern && (
          <span className={css.item} data-attention={concern.run.name}>
            <RunChip run={concern.run} observedAt={concern.run.observed_at} reason={concern.run.fleet_reason} />
            <Link to="/runs/$name" params={{ name: concern.run.name }} className={css.words} title={visible(concern.why)}>
              {concern.run.name}: {visible(concern.why)}
            </Link>
            {further.length > 0 && <span className="soft nowrap">and {number(further.length)} more</span>}
          </span>
        )}
        {summary && groups.length === 0 && !concern && (
          <span className="soft" role="status">
            ✓ Nothing needs your attention.
          </span>
        )}
        {error && !summary && <span className="held">Alerts unavailable: {error.detail}</span>}
        <Space flex={1} />
        {summary && (
          <Link to="/alerts" className="nowrap">
            {open > 0 ? `Alerts: ${number(open)} open` : "Alerts"}
          </Link>
        )}
      </section>
    </>
  );
}
