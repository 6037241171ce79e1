import { Button } from "@mantine/core";
import { useState } from "react";
import { type MachineCordon, useCordonMachine } from "@/api/deployment";
import { TAKES_ADMIN, useMayAdminister } from "@/api/session";
import { Age } from "@/components/Age";
import { Chip } from "@/components/Chip";
import { Hint } from "@/components/Hint";
import { ReasonDialog } from "@/components/ReasonDialog";
import { visible } from "@/format";
import { emptied, type Place } from "@/pages/cluster/machines";

const EMPTY = [
  "Workers of all runs on this machine finish and send their current work, exit, and restart on other machines",
  "with free resources. No new workers or managers of this server are placed on it until it is uncordoned.",
  "A manager on the machine keeps running there. Other workloads of the cluster are not affected.",
].join(" ");
const LET_IN = "New workers and managers may be placed on the machine again. Moved workers stay where they are.";

function State({ cordon }: { cordon: MachineCordon }) {
  const isApplied = cordon.workers === 0;
  return (
    <div className="small soft anywhere" role="status" data-machine-cordon={isApplied ? "applied" : "requested"}>
      <Chip tone="held" sign={isApplied ? "✓" : "◕"}>
        cordoned
      </Chip>{" "}
      by {visible(cordon.cordoned_by)} <Age at={cordon.cordoned_at} suffix=" ago" />: {visible(cordon.reason)}
      <div>{visible(emptied(cordon))}</div>
    </div>
  );
}

/** Cordon or uncordon a machine, with its cordon and the remaining workers. */
export function CordonMachine({ place: { node, host, cordon } }: { place: Place }) {
  const mayAdminister = useMayAdminister();
  // The action of the dialog; the cordon may change meanwhile.
  const [open, setOpen] = useState<"" | "cordon" | "lift">("");
  const ask = useCordonMachine();
  const id = cordon?.node ?? (node?.alive ? node.node : undefined);
  if (id === undefined) return null;
  const name = visible(host) || id.slice(0, 12);
  const lifts = open === "lift";
  const help = cordon
    ? "Allow new workers and managers on this machine again."
    : "Move workers off this machine and place no new ones on it.";
  const words = cordon ? "Uncordon…" : "Cordon…";
  return (
    <>
      {cordon && <State cordon={cordon} />}
      <Hint label={mayAdminister ? help : TAKES_ADMIN}>
        <Button
          size="compact-xs"
          variant="default"
          disabled={!mayAdminister}
          aria-label={`${words} ${name}`}
          onClick={() => setOpen(cordon ? "lift" : "cordon")}
        >
          {words}
        </Button>
      </Hint>
      {open && (
        <ReasonDialog
          title={lifts ? `Uncordon ${name}` : `Cordon ${name}`}
          asking={ask}
          refused="Machine not changed"
          recordedIn="Shown beside the machine and recorded in the audit log."
          submit={lifts ? "Uncordon" : "Cordon"}
          needsReason={!lifts}
          onSubmit={(reason) => ask.mutate({ node: id, reason, lifts }, { onSuccess: () => setOpen("") })}
          onClose={() => setOpen("")}
        >
          <p>{lifts ? LET_IN : EMPTY}</p>
        </ReasonDialog>
      )}
    </>
  );
}
