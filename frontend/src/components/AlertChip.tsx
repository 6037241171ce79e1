import { Tooltip } from "@mantine/core";
import type { AlertRow } from "@/api/alerts";
import { alertLook } from "@/components/alertStyles";

/** The severity of an alert, or its state once handled. */
export function AlertChip({ alert }: { alert: Pick<AlertRow, "severity" | "state"> & Partial<Pick<AlertRow, "silenced_until">> }) {
  const { tone, sign, word, meaning } = alertLook(alert);
  return (
    <Tooltip label={meaning} events={{ hover: true, focus: true, touch: true }}>
      <span className={`chip tone-${tone}`} tabIndex={0} data-alert={word}>
        <span className="chip-sign" aria-hidden="true">
          {sign}
        </span>
        {word}
        {alert.state !== "open" && alert.severity === "error" && <span className="chip-age">· error</span>}
      </span>
    </Tooltip>
  );
}
