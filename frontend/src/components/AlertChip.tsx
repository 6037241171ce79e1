import type { AlertRow } from "@/api/alerts";
import { alertLook } from "@/components/alertStyles";
import { Chip } from "@/components/Chip";
import { Hint } from "@/components/Hint";

/** The severity of an alert, or its state once handled. */
export function AlertChip({ alert }: { alert: Pick<AlertRow, "severity" | "state"> & Partial<Pick<AlertRow, "is_snoozed">> }) {
  const { tone, sign, word, meaning } = alertLook(alert);
  return (
    <Hint label={meaning}>
      <Chip tone={tone} sign={sign} tabIndex={0} data-alert={word}>
        {word}
        {alert.state !== "open" && alert.severity === "error" && <span className="chip-age">· error</span>}
      </Chip>
    </Hint>
  );
}
