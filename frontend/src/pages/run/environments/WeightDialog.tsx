import { Box, Button, Group, Modal, NumberInput, TextInput } from "@mantine/core";
import { useState } from "react";
import { useReweigh } from "@/api/queue";
import type { EnvironmentRow } from "@/api/types";
import { ErrorState } from "@/components/ErrorState";

type Props = { run: string; environment: EnvironmentRow; onClose: () => void };

/** Give an environment another share of the batches, with a reason. */
export function WeightDialog({ run, environment, onClose }: Props) {
  const [weight, setWeight] = useState<number | string>(environment.weight);
  const [reason, setReason] = useState("");
  const reweigh = useReweigh(run);
  const isReady = typeof weight === "number" && weight !== environment.weight;
  return (
    <Modal opened onClose={onClose} title={`Weight of ${environment.wandb_name}`}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady) reweigh.mutate({ envId: environment.env_id, weight, reason }, { onSuccess: onClose });
        }}
      >
        <NumberInput
          label="Weight"
          description="Its share of the batches beside the weights of the others, from the next batch on. 0: only what nothing else fills."
          value={weight}
          min={0}
          max={1e6}
          data-autofocus
          onChange={setWeight}
        />
        <TextInput
          mt="md"
          label="Reason"
          description="Kept in the run's events with your name."
          value={reason}
          maxLength={2000}
          onChange={(event) => setReason(event.currentTarget.value)}
        />
        {reweigh.error && (
          <Box mt="md">
            <ErrorState title="The weight stays as it is" error={reweigh.error} />
          </Box>
        )}
        <Group justify="flex-end" mt="lg">
          <Button variant="default" onClick={onClose}>Leave it as it is</Button>
          <Button type="submit" loading={reweigh.isPending} disabled={!isReady}>Change</Button>
        </Group>
      </form>
    </Modal>
  );
}
