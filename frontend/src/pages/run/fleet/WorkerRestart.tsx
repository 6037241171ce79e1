import { Button, Tooltip } from "@mantine/core";
import { useState } from "react";
import { useRestartWorker } from "@/api/fleet";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import type { WorkerRow } from "@/api/types";
import { KEPT_IN_EVENTS } from "@/components/keptIn";
import { ReasonDialog } from "@/components/ReasonDialog";

const GONE = new Set(["stopped", "respawning"]);

type DialogProps = { worker: WorkerRow; restart: ReturnType<typeof useRestartWorker>; onClose: () => void };

function Dialog({ worker, restart, onClose }: DialogProps) {
  return (
    <ReasonDialog
      title={`Replace worker ${worker.index}`}
      asking={restart}
      refused="The worker stays"
      keptIn={KEPT_IN_EVENTS}
      submit="Replace it"
      onSubmit={(reason) => restart.mutate({ worker: worker.index, incarnation: worker.incarnation, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p>
        It ends, and a new one takes its place with the newest weights. What it has cut is sent; steps of fragments that are not full yet
        are lost and counted. The other workers go on.
      </p>
    </ReasonDialog>
  );
}

type Props = { run: string; worker: WorkerRow };

/** Have one worker replaced; says so for as long as it was asked and the old one is still there. */
export function WorkerRestart({ run, worker }: Props) {
  const mayOperate = useMayOperate();
  const [open, setOpen] = useState(false);
  // Asked here, because the dialog may be gone before the answer is: the live page is often sooner.
  const restart = useRestartWorker(run);
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
      <Tooltip label={mayOperate ? "End it, and have a new one in its place." : TAKES_OPERATOR}>
        <Button size="compact-xs" variant="default" disabled={!mayOperate} onClick={() => setOpen(true)}>
          Replace worker {worker.index}
        </Button>
      </Tooltip>
      {open && <Dialog worker={worker} restart={restart} onClose={() => setOpen(false)} />}
    </>
  );
}
