import { Button, Tooltip } from "@mantine/core";
import { useState } from "react";
import { useCordonWorker } from "@/api/fleet";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import type { WorkerRow } from "@/api/types";
import { ReasonDialog } from "@/components/ReasonDialog";

const KEEP_OUT =
  "It begins nothing more, finishes and sends what it has begun, and ends. Nobody takes its place: the fleet is one worker smaller until somebody lets it in again. The other workers go on.";
const LET_IN = "A new worker takes the free place, with the newest weights. One that still drains ends first.";

/** Keep one worker out, or let it in again. */
export function WorkerCordon({ run, worker }: { run: string; worker: WorkerRow }) {
  const mayOperate = useMayOperate();
  // What the button was pressed for: a report may come between two clicks.
  const [open, setOpen] = useState<"" | "cordon" | "lift">("");
  // Asked here, because the dialog may be gone before the answer is: the live page is often sooner.
  const cordon = useCordonWorker(run);
  const { index, incarnation } = worker;
  const isUp = worker.cordon === "requested" || worker.cordon === "draining" || worker.cordon === "out";
  const isGone = worker.state === "stopped" && !isUp;
  const lifts = open === "lift";
  const help = isUp ? "Have another worker in its place again." : "Let it finish what it has begun, and keep its place free.";
  return (
    <>
      {!isGone && (
        <Tooltip label={mayOperate ? help : TAKES_OPERATOR}>
          <Button size="compact-xs" variant="default" disabled={!mayOperate} onClick={() => setOpen(isUp ? "lift" : "cordon")}>
            {isUp ? `Let worker ${index} in again` : `Drain worker ${index}`}
          </Button>
        </Tooltip>
      )}
      {open && (
        <ReasonDialog
          title={lifts ? `Let worker ${index} in again` : `Drain worker ${index} and keep it out`}
          asking={cordon}
          refused="The worker stays as it is"
          keptIn="Shown beside the worker and kept in the run's events."
          submit={lifts ? "Let it in" : "Drain it"}
          onSubmit={(reason) => cordon.mutate({ worker: index, incarnation, reason, lifts }, { onSuccess: () => setOpen("") })}
          onClose={() => setOpen("")}
        >
          <p>{lifts ? LET_IN : KEEP_OUT}</p>
        </ReasonDialog>
      )}
    </>
  );
}
