import { Button } from "@mantine/core";
import { useState } from "react";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import type { WorkerRow } from "@/api/types";
import { Hint } from "@/components/Hint";
import { ReasonDialog } from "@/components/ReasonDialog";
import { RECORDED_IN_EVENTS } from "@/components/recordedIn";
import { useRestartWorker } from "@/pages/run/fleet/api";

const GONE = new Set(["stopped", "respawning"]);

type DialogProps = { worker: WorkerRow; restart: ReturnType<typeof useRestartWorker>; onClose: () => void };

function Dialog({ worker, restart, onClose }: DialogProps) {
  return (
    <ReasonDialog
      title={`Replace worker ${worker.index}`}
      asking={restart}
      refused="Worker not replaced"
      recordedIn={RECORDED_IN_EVENTS}
      submit="Replace"
      onSubmit={(reason) => restart.mutate({ worker: worker.index, incarnation: worker.incarnation, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p>
        The worker exits and a new one starts with the newest weights. Finished fragments are sent; steps of incomplete fragments are lost
        and counted. Other workers continue.
      </p>
    </ReasonDialog>
  );
}

type Props = { run: string; worker: WorkerRow };

/** Replace one worker; shows the pending request while the old worker is present. */
export function WorkerRestart({ run, worker }: Props) {
  const mayOperate = useMayOperate();
  const [open, setOpen] = useState(false);
  // The mutation lives here, as live updates may close the dialog before the response arrives.
  const restart = useRestartWorker(run);
  if (worker.is_to_restart) {
    return (
      <p className="small soft" role="status">
        <span aria-hidden="true">◷</span> replacement requested; this worker is still running
      </p>
    );
  }
  if (GONE.has(worker.state)) return null;
  return (
    <>
      <Hint label={mayOperate ? "Stop it and start a new worker in its place." : TAKES_OPERATOR}>
        <Button size="compact-xs" variant="default" disabled={!mayOperate} onClick={() => setOpen(true)}>
          Replace worker {worker.index}
        </Button>
      </Hint>
      {open && <Dialog worker={worker} restart={restart} onClose={() => setOpen(false)} />}
    </>
  );
}
