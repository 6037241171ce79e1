import { Box, Button, Group, Modal, TextInput, Tooltip } from "@mantine/core";
import { useState } from "react";
import { useRestartWorker } from "@/api/fleet";
import { useMayOperate } from "@/api/session";
import type { WorkerRow } from "@/api/types";
import { ErrorState } from "@/components/ErrorState";

const GONE = new Set(["stopped", "respawning"]);

type DialogProps = { run: string; worker: WorkerRow; onClose: () => void };

function Dialog({ run, worker, onClose }: DialogProps) {
  const [reason, setReason] = useState("");
  const restart = useRestartWorker(run);
  return (
    <Modal opened onClose={onClose} title={`Replace worker ${worker.index}`}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          restart.mutate({ worker: worker.index, incarnation: worker.incarnation, reason }, { onSuccess: onClose });
        }}
      >
        <p>
          It ends, and a new one takes its place with the newest weights. What it has cut is sent; steps of fragments that
          are not full yet are lost and counted. The other workers go on.
        </p>
        <TextInput
          mt="md"
          label="Reason"
          description="Kept in the run's events, for whoever asks later."
          value={reason}
          maxLength={2000}
          data-autofocus
          onChange={(event) => setReason(event.currentTarget.value)}
        />
        {restart.error && (
          <Box mt="md">
            <ErrorState title="The worker stays" error={restart.error} />
          </Box>
        )}
        <Group justify="flex-end" mt="lg">
          <Button variant="default" onClick={onClose}>
            Leave it there
          </Button>
          <Button type="submit" disabled={restart.isPending}>
            {restart.isPending ? "Asking…" : "Replace it"}
          </Button>
        </Group>
      </form>
    </Modal>
  );
}

type Props = { run: string; worker: WorkerRow };

/** Have one worker replaced; says so for as long as it was asked and the old one is still there. */
export function WorkerRestart({ run, worker }: Props) {
  const mayOperate = useMayOperate();
  const [open, setOpen] = useState(false);
  if (worker.is_to_restart) {
    return (
      <p className="small soft" role="status">
        <span aria-hidden="true">◷</span> another one was asked for; this one is still there
      </p>
    );
  }
  if (GONE.has(worker.state)) return null;
  return (
    <>
      <Tooltip label={mayOperate ? "End it, and have a new one in its place." : "You may look; this takes an operator."}>
        <Button size="compact-xs" variant="default" disabled={!mayOperate} onClick={() => setOpen(true)}>
          Replace worker {worker.index}
        </Button>
      </Tooltip>
      {open && <Dialog run={run} worker={worker} onClose={() => setOpen(false)} />}
    </>
  );
}
