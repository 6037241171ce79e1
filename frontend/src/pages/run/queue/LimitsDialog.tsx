import { NativeSelect, NumberInput } from "@mantine/core";
import { useState } from "react";
import { useChangeLimits } from "@/api/runs";
import type { RunDetail } from "@/api/types";
import { ReasonDialog } from "@/components/ReasonDialog";
import { RECORDED_IN_EVENTS } from "@/components/recordedIn";
import { number } from "@/format";
import { changesOf, typedOf } from "@/pages/run/queue/limits";

type Props = { run: RunDetail; onClose: () => void };

/** Change the limits on producers and trainers, with a reason; shows the resulting threshold. */
export function LimitsDialog({ run, onClose }: Props) {
  const [typed, setTyped] = useState(() => typedOf(run));
  const change = useChangeLimits(run.name);
  const changes = changesOf(run, typed);
  const room = typeof typed.off_policy_tolerance === "number" && run.batch_size ? typed.off_policy_tolerance * run.batch_size : null;
  return (
    <ReasonDialog
      title={`Limits of ${run.name}`}
      asking={change}
      refused="Limits not changed"
      recordedIn={RECORDED_IN_EVENTS}
      submit="Change"
      isReady={changes !== null}
      onSubmit={(reason) => changes && change.mutate({ ...changes, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <NumberInput
        label="Tolerance · batches"
        description={`Producers pause when more than this many batches are queued${room === null ? "" : `: above ${number(room)} ${run.kind === "fleet" ? "fragments" : "sequences"}`}.`}
        value={typed.off_policy_tolerance}
        min={0.1}
        max={1024}
        data-autofocus
        onChange={(value) => setTyped({ ...typed, off_policy_tolerance: value })}
      />
      <NumberInput
        mt="md"
        label="Max. staleness · versions"
        description="Staler data is dropped and counted; empty: no limit."
        value={typed.max_staleness}
        min={0}
        allowDecimal={false}
        onChange={(value) => setTyped({ ...typed, max_staleness: value })}
      />
      <NumberInput
        mt="md"
        label="Lease · s"
        description="Without a request from its trainer for this long, a batch expires and goes to the next trainer. Applies from the next batch on."
        value={typed.lease_seconds}
        min={1}
        max={86_400}
        onChange={(value) => setTyped({ ...typed, lease_seconds: value })}
      />
      {run.kind === "outside" && (
        <NativeSelect
          mt="md"
          label="Second registration"
          description="What happens when a stock trainer registers again while the run has one."
          value={typed.on_second_registration}
          data={[
            { value: "keep", label: "Keep the run" },
            { value: "reset", label: "Archive the run and begin a new one" },
          ]}
          onChange={(event) => setTyped({ ...typed, on_second_registration: event.currentTarget.value === "reset" ? "reset" : "keep" })}
        />
      )}
    </ReasonDialog>
  );
}
