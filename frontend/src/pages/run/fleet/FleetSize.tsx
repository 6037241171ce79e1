import { Box, Button, Group, Modal, NumberInput, TextInput, Tooltip } from "@mantine/core";
import { useState } from "react";
import { useResize } from "@/api/runs";
import { useMayOperate } from "@/api/session";
import type { RunDetail, WorkerRow } from "@/api/types";
import { ErrorState } from "@/components/ErrorState";
import { MOST_WORKERS, sizeArrival, whatHappens } from "@/pages/run/fleet/resizing";

type ResizeProps = { name: string; now: number; onClose: () => void };

function Resize({ name, now, onClose }: ResizeProps) {
  const [wanted, setWanted] = useState(now);
  const [reason, setReason] = useState("");
  const resize = useResize(name);
  return (
    <Modal opened onClose={onClose} title={`Workers of ${name}`}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          resize.mutate({ workers: wanted, reason }, { onSuccess: onClose });
        }}
      >
        <NumberInput
          label="Workers"
          description={whatHappens(now, wanted)}
          value={wanted}
          min={1}
          max={MOST_WORKERS}
          allowDecimal={false}
          clampBehavior="strict"
          data-autofocus
          onChange={(value) => setWanted(Number(value) || now)}
        />
        <TextInput
          mt="md"
          label="Reason"
          description="Kept in the run's events, for whoever asks later."
          value={reason}
          maxLength={2000}
          onChange={(event) => setReason(event.currentTarget.value)}
        />
        {resize.error && (
          <Box mt="md">
            <ErrorState title="The fleet stays as it is" error={resize.error} />
          </Box>
        )}
        <Group justify="flex-end" mt="lg">
          <Button variant="default" onClick={onClose}>
            Leave it as it is
          </Button>
          <Button type="submit" disabled={wanted === now || resize.isPending}>
            {resize.isPending ? "Asking…" : "Resize"}
          </Button>
        </Group>
      </form>
    </Modal>
  );
}

type Props = { run: RunDetail; workers: WorkerRow[] };

/** How many workers are wanted and whether they are there; operators change it while the run goes on. */
export function FleetSize({ run, workers }: Props) {
  const mayOperate = useMayOperate();
  const [open, setOpen] = useState(false);
  if (run.num_workers === null) return null;
  const arrived = sizeArrival(run.num_workers, workers);
  return (
    <>
      {arrived && (
        <span className={`small soft arrival-${arrived.state}`} data-size={arrived.state} role="status">
          <span aria-hidden="true">{arrived.state === "applied" ? "✓" : "◷"}</span> {arrived.text}
        </span>
      )}
      <Tooltip label={mayOperate ? "Have more or fewer workers from now on." : "You may look; this takes an operator."}>
        <Button size="compact-sm" variant="default" disabled={!mayOperate} data-resize onClick={() => setOpen(true)}>
          {run.num_workers} {run.num_workers === 1 ? "worker" : "workers"} wanted
        </Button>
      </Tooltip>
      {open && <Resize name={run.name} now={run.num_workers} onClose={() => setOpen(false)} />}
    </>
  );
}
