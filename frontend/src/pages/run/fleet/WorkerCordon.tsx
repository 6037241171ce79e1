import { Button } from "@mantine/core";
import { useState } from "react";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import type { WorkerRow } from "@/api/types";
import { Hint } from "@/components/Hint";
import { ReasonDialog } from "@/components/ReasonDialog";
import { useCordonWorker } from "@/pages/run/fleet/api";

const KEEP_OUT =
  "The worker starts no new work, finishes and sends its current work, and exits. It is not replaced: the fleet has one worker less until it is uncordoned. Other workers continue.";
const LET_IN = "A new worker starts in its place with the newest weights. If the old worker is still draining, it exits first.";

/** Drain and cordon one worker, or uncordon it. */
export function WorkerCordon({ run, worker }: { run: string; worker: WorkerRow }) {
  const mayOperate = useMayOperate();
  // The action of the dialog; a report may change the state meanwhile.
  const [open, setOpen] = useState<"" | "cordon" | "lift">("");
  // The mutation lives here, as live updates may close the dialog before the response arrives.
  const cordon = useCordonWorker(run);
  const { index, incarnation } = worker;
  const isUp = worker.cordon === "requested" || worker.cordon === "draining" || worker.cordon === "out";
  const isGone = worker.state === "stopped" && !isUp;
  const lifts = open === "lift";
  const help = isUp ? "Start a new worker in its place." : "Finish its current work, exit, and keep its place free.";
  return (
    <>
      {!isGone && (
        <Hint label={mayOperate ? help : TAKES_OPERATOR}>
          <Button size="compact-xs" variant="default" disabled={!mayOperate} onClick={() => setOpen(isUp ? "lift" : "cordon")}>
            {isUp ? `Uncordon worker ${index}` : `Drain worker ${index}`}
          </Button>
        </Hint>
      )}
      {open && (
        <ReasonDialog
          title={lifts ? `Uncordon worker ${index}` : `Drain and cordon worker ${index}`}
          asking={cordon}
          refused="Worker not changed"
          recordedIn="Shown beside the worker and recorded in the run's events."
          submit={lifts ? "Uncordon" : "Drain"}
          onSubmit={(reason) => cordon.mutate({ worker: index, incarnation, reason, lifts }, { onSuccess: () => setOpen("") })}
          onClose={() => setOpen("")}
        >
          <p>{lifts ? LET_IN : KEEP_OUT}</p>
        </ReasonDialog>
      )}
    </>
  );
}
