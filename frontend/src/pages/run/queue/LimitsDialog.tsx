import { Box, Button, Group, Modal, NumberInput, TextInput } from "@mantine/core";
import { useState } from "react";
import { useChangeLimits } from "@/api/runs";
import type { RunDetail } from "@/api/types";
import { ErrorState } from "@/components/ErrorState";
import { useFocusBack } from "@/components/useFocusBack";
import { number } from "@/format";
import { changesOf, typedOf } from "@/pages/run/queue/limits";

type Props = { run: RunDetail; onClose: () => void };

/** Move the limits that hold producers and trainers back, with a reason; what they come to is written out. */
export function LimitsDialog({ run, onClose }: Props) {
  useFocusBack();
  const [typed, setTyped] = useState(() => typedOf(run));
  const [reason, setReason] = useState("");
  const change = useChangeLimits(run.name);
  const changes = changesOf(run, typed);
  const room = typeof typed.off_policy_tolerance === "number" && run.batch_size ? typed.off_policy_tolerance * run.batch_size : null;
  return (
    <Modal opened onClose={onClose} title={`Limits of ${run.name}`}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (changes) change.mutate({ ...changes, reason }, { onSuccess: onClose });
        }}
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
        <TextInput mt="md" label="Reason" description="Kept in the run's events with your name." value={reason} maxLength={2000} onChange={(event) => setReason(event.currentTarget.value)} />
        {change.error && (
          <Box mt="md">
            <ErrorState title="The limits stay as they are" error={change.error} />
          </Box>
        )}
        <Group justify="flex-end" mt="lg">
          <Button variant="default" onClick={onClose}>Leave them as they are</Button>
          <Button type="submit" loading={change.isPending} disabled={!changes}>Change</Button>
        </Group>
      </form>
    </Modal>
  );
}
