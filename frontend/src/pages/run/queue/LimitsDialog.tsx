import { NativeSelect, NumberInput } from "@mantine/core";
import { useState } from "react";
import { type NewLimits, useChangeLimits } from "@/api/runs";
import type { RunDetail } from "@/api/types";
import { RECORDED_IN_EVENTS, ReasonDialog } from "@/components/Dialog";
import { inUnit } from "@/format";
import { unitOf } from "@/runs/queued";

export type Limits = Pick<RunDetail, "off_policy_tolerance" | "max_staleness" | "lease_seconds" | "on_second_registration">;

type TypedLimits = { [name in keyof Limits]: Limits[name] | null };

/** The changed limits; null if nothing changed or a value is invalid. Staleness may be empty, which means no limit. */
export function changesOf(now: Limits, typed: TypedLimits): Omit<NewLimits, "reason"> | null {
  if (typed.off_policy_tolerance === null || typed.lease_seconds === null) return null;
  const names = Object.keys(typed) as (keyof Limits)[];
  const changed = names.filter((name) => typed[name] !== now[name]).map((name) => [name, typed[name]]);
  return changed.length > 0 ? Object.fromEntries(changed) : null;
}

type Props = { run: RunDetail; onClose: () => void };

/** Change the limits on producers and trainers, with a reason; shows the resulting threshold. */
export function LimitsDialog({ run, onClose }: Props) {
  const { off_policy_tolerance, max_staleness, lease_seconds, on_second_registration } = run;
  const [typed, setTyped] = useState<TypedLimits>({ off_policy_tolerance, max_staleness, lease_seconds, on_second_registration });
  const change = useChangeLimits(run.name);
  const changes = changesOf(run, typed);
  const room = typed.off_policy_tolerance && run.batch_size ? typed.off_policy_tolerance * run.batch_size : null;
  // An empty field is null.
  const input = (name: "off_policy_tolerance" | "max_staleness" | "lease_seconds") => ({
    value: typed[name] ?? "",
    onChange: (value: number | string) => setTyped({ ...typed, [name]: typeof value === "number" ? value : null }),
  });
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
        description={`Producers pause when more than this many batches are queued${room === null ? "" : `: above ${inUnit(room, unitOf(run.kind))}`}.`}
        {...input("off_policy_tolerance")}
        min={0.1}
        max={1024}
        data-autofocus
      />
      <NumberInput
        mt="md"
        label="Max. staleness · versions"
        description="Staler data is dropped and counted; empty: no limit."
        {...input("max_staleness")}
        min={0}
        allowDecimal={false}
      />
      <NumberInput
        mt="md"
        label="Lease · s"
        description="Without a request from its trainer for this long, a batch expires and goes to the next trainer. Applies from the next batch on."
        {...input("lease_seconds")}
        min={1}
        max={86_400}
      />
      {run.kind === "outside" && (
        <NativeSelect
          mt="md"
          label="Second registration"
          description="What happens when a stock trainer registers again while the run has one."
          value={typed.on_second_registration ?? "keep"}
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
