import { NativeSelect, NumberInput } from "@mantine/core";
import { useState } from "react";
import { type NewLimits, useChangeLimits } from "@/api/runs";
import type { RunDetail } from "@/api/types";
import { RECORDED_IN_EVENTS, ReasonDialog } from "@/components/Dialog";
import { number } from "@/format";

type NumberLimit = "off_policy_tolerance" | "max_staleness" | "lease_seconds";
export type Limits = Pick<RunDetail, NumberLimit | "on_second_registration">;
/** Form values; empty staleness means no limit. */
type TypedLimits = { [name in NumberLimit]: number | string } & Pick<Limits, "on_second_registration">;

export function typedOf({ off_policy_tolerance, max_staleness, lease_seconds, on_second_registration }: Limits): TypedLimits {
  return { off_policy_tolerance, max_staleness: max_staleness ?? "", lease_seconds, on_second_registration };
}

/** The changed limits; null if nothing changed or a value is invalid. */
export function changesOf(now: Limits, typed: TypedLimits): Omit<NewLimits, "reason"> | null {
  const { off_policy_tolerance, max_staleness, lease_seconds } = typed;
  if (typeof off_policy_tolerance !== "number" || typeof lease_seconds !== "number") return null;
  const staleness = typeof max_staleness === "number" ? max_staleness : null;
  const changes: Omit<NewLimits, "reason"> = {};
  if (off_policy_tolerance !== now.off_policy_tolerance) changes.off_policy_tolerance = off_policy_tolerance;
  if (staleness !== now.max_staleness) changes.max_staleness = staleness;
  if (lease_seconds !== now.lease_seconds) changes.lease_seconds = lease_seconds;
  if (typed.on_second_registration !== now.on_second_registration) changes.on_second_registration = typed.on_second_registration;
  return Object.keys(changes).length > 0 ? changes : null;
}

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
