import { Button, Tooltip } from "@mantine/core";
import { useState } from "react";
import { type MachineCordon, useCordonMachine } from "@/api/deck";
import { TAKES_ADMIN, useMayAdminister } from "@/api/session";
import { Age } from "@/components/Age";
import { ReasonDialog } from "@/components/ReasonDialog";
import { visible } from "@/format";
import { emptied, type Place } from "@/pages/cluster/topology";

const EMPTY = [
  "Workers of every run that are there finish and send what they have begun, end, and begin anew on other machines",
  "where there is room. No worker and no manager of this deck is placed there until it is let in again.",
  "A manager that is there stays as long as its machine. What others run on the cluster is not touched.",
].join(" ");
const LET_IN = "Workers and managers may be placed there again. Whoever has moved stays where they are.";

function State({ cordon }: { cordon: MachineCordon }) {
  const isApplied = cordon.workers === 0;
  return (
    <div className="small soft anywhere" role="status" data-machine-cordon={isApplied ? "applied" : "requested"}>
      <span className="chip tone-held">
        <span className="chip-sign" aria-hidden="true">
          {isApplied ? "✓" : "◕"}
        </span>
        cordoned
      </span>{" "}
      by {visible(cordon.cordoned_by)} <Age at={cordon.cordoned_at} suffix=" ago" />: {visible(cordon.reason)}
      <div>{visible(emptied(cordon))}</div>
    </div>
  );
}

/** Empty a machine, or let it in again; what was asked, and how far that is. */
export function CordonMachine({ place: { node, host, cordon } }: { place: Place }) {
  const mayAdminister = useMayAdminister();
  // What the button was pressed for: somebody else may be faster.
  const [open, setOpen] = useState<"" | "cordon" | "lift">("");
  const ask = useCordonMachine();
  const id = cordon?.node ?? (node?.alive ? node.node : undefined);
  if (id === undefined) return null;
  const name = visible(host) || id.slice(0, 12);
  const lifts = open === "lift";
  const help = cordon
    ? "Have workers and managers placed there again."
    : "Let workers that are there finish and move, and place nobody there.";
  const words = cordon ? "Let it in again…" : "Cordon…";
  return (
    <>
      {cordon && <State cordon={cordon} />}
      <Tooltip label={mayAdminister ? help : TAKES_ADMIN}>
        <Button
          size="compact-xs"
          variant="default"
          disabled={!mayAdminister}
          aria-label={`${words} ${name}`}
          onClick={() => setOpen(cordon ? "lift" : "cordon")}
        >
          {words}
        </Button>
      </Tooltip>
      {open && (
        <ReasonDialog
          title={lifts ? `Let ${name} in again` : `Cordon ${name}`}
          asking={ask}
          refused="The machine stays as it is"
          keptIn="Shown on the machine's tile and kept in the audit."
          submit={lifts ? "Let it in" : "Cordon it"}
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
