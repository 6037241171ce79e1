import { SegmentedControl } from "@mantine/core";
import { useState } from "react";
import { type SnoozeSubject, useSnooze } from "@/api/alerts";
import { ReasonDialog } from "@/components/Dialog";
import { visible } from "@/format";

const HOUR_MS = 3_600_000;
const UNTIL_ENDED = "0";
const LENGTHS = [
  { value: "1", label: "1 h" },
  { value: "8", label: "8 h" },
  { value: "24", label: "24 h" },
  { value: "168", label: "7 days" },
  { value: UNTIL_ENDED, label: "Until ended" },
];

/** Suspend the notifications of an alert, or of all alerts of a rule. */
export function SnoozeDialog({ title, subject, onClose }: { title: string; subject: SnoozeSubject; onClose: () => void }) {
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
      onSubmit={(reason) => snooze.mutate({ ...subject, until: until(), reason }, { onSuccess: onClose })}
    >
      <p>It stays visible and sends no notifications. If it is still active when the snooze ends, it notifies then.</p>
      <SegmentedControl aria-label="Duration" data={LENGTHS} value={hours} onChange={setHours} />
    </ReasonDialog>
  );
}
