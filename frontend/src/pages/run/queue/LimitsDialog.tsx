import { NumberInput } from "@mantine/core";
import { useState } from "react";
import { useChangeLimits } from "@/api/runs";
import type { RunDetail } from "@/api/types";
import { KEPT_IN_EVENTS } from "@/components/keptIn";
import { ReasonDialog } from "@/components/ReasonDialog";
import { number } from "@/format";
import { changesOf, typedOf } from "@/pages/run/queue/limits";

type Props = { run: RunDetail; onClose: () => void };

/** Move the limits that hold producers and trainers back, with a reason; what they come to is written out. */
export function LimitsDialog({ run, onClose }: Props) {
  const [typed, setTyped] = useState(() => typedOf(run));
  const change = useChangeLimits(run.name);
  const changes = changesOf(run, typed);
  const room = typeof typed.off_policy_tolerance === "number" && run.batch_size ? typed.off_policy_tolerance * run.batch_size : null;
  return (
    <ReasonDialog
      title={`Limits of ${run.name}`}
      asking={change}
      refused="The limits stay as they are"
      keptIn={KEPT_IN_EVENTS}
      submit="Change"
      isReady={changes !== null}
      onSubmit={(reason) => changes && change.mutate({ ...changes, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <NumberInput
        label="Tolerance · batches"
        description={`Producers pause when more than this many batches wait${room === null ? "" : `: above ${number(room)} ${run.kind === "fleet" ? "fragments" : "sequences"}`}.`}
        value={typed.off_policy_tolerance}
        min={0.1}
        max={1024}
        data-autofocus
        onChange={(value) => setTyped({ ...typed, off_policy_tolerance: value })}
      />
      <NumberInput
        mt="md"
        label="Most staleness · versions"
        description="What is further behind is dropped and counted; empty: nothing is."
        value={typed.max_staleness}
        min={0}
        allowDecimal={false}
        onChange={(value) => setTyped({ ...typed, max_staleness: value })}
      />
      <NumberInput
        mt="md"
        label="Lease · s"
        description="A batch whose trainer says nothing for this long goes to the next one. Holds from the next batch on."
        value={typed.lease_seconds}
        min={1}
        max={86_400}
        onChange={(value) => setTyped({ ...typed, lease_seconds: value })}
      />
    </ReasonDialog>
  );
}
