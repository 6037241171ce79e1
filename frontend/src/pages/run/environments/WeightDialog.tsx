import { NumberInput } from "@mantine/core";
import { useState } from "react";
import { useReweigh } from "@/api/queue";
import type { EnvironmentRow } from "@/api/types";
import { ReasonDialog } from "@/components/ReasonDialog";
import { RECORDED_IN_EVENTS } from "@/components/recordedIn";

type Props = { run: string; environment: EnvironmentRow; onClose: () => void };

/** Set the weight of an environment in batches, with a reason. */
export function WeightDialog({ run, environment, onClose }: Props) {
  const [weight, setWeight] = useState<number | string>(environment.weight);
  const reweigh = useReweigh(run);
  const isReady = typeof weight === "number" && weight !== environment.weight;
  return (
    <ReasonDialog
      title={`Weight of ${environment.wandb_name}`}
      asking={reweigh}
      refused="Weight not changed"
      recordedIn={RECORDED_IN_EVENTS}
      submit="Change"
      isReady={isReady}
      onSubmit={(reason) =>
        typeof weight === "number" && reweigh.mutate({ envId: environment.env_id, weight, reason }, { onSuccess: onClose })
      }
      onClose={onClose}
    >
      <NumberInput
        label="Weight"
        description="Its share of batches relative to the other weights, from the next batch on. 0: only used to fill otherwise incomplete batches."
        value={weight}
        min={0}
        max={1e6}
        data-autofocus
        onChange={setWeight}
      />
    </ReasonDialog>
  );
}
