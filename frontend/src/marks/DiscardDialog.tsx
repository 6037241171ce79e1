import { Button, Group } from "@mantine/core";
import { useDiscardGroups } from "@/api/discards";
import { Dialog } from "@/components/Dialog";
import { ReasonDialog } from "@/components/ReasonDialog";
import { number } from "@/format";

type Props = { run: string; groups: number[]; onDone?: () => void; onClose: () => void };

const counted = (groups: number) => `${number(groups)} ${groups === 1 ? "group" : "groups"}`;

/** Groups that were not discarded, each with why. */
function Left({ problems, of, onClose }: { problems: { id: number; problem: string }[]; of: number; onClose: () => void }) {
  return (
    <Dialog onClose={onClose} title={`${counted(problems.length)} of ${number(of)} stayed`}>
      <ul className="small">
        {problems.slice(0, 20).map(({ id, problem }) => (
          <li key={id}>
            <span className="mono">#{id}</span> {problem}
          </li>
        ))}
      </ul>
      {problems.length > 20 && <p className="faint small">… and {number(problems.length - 20)} more.</p>}
      <Group justify="flex-end" mt="lg">
        <Button data-autofocus onClick={onClose}>
          Close
        </Button>
      </Group>
    </Dialog>
  );
}

/** Take groups out of the queue for good, with a reason; what a trainer holds stays with it. */
export function DiscardDialog({ run, groups, onDone, onClose }: Props) {
  const discard = useDiscardGroups(run);
  const problems = discard.data?.filter(({ problem }) => problem) ?? [];
  const done = () => {
    onClose();
    onDone?.();
  };
  if (problems.length > 0) return <Left problems={problems} of={groups.length} onClose={done} />;
  return (
    <ReasonDialog
      title={`Discard ${groups.length === 1 ? `group ${groups[0]}` : counted(groups.length)}`}
      asking={discard}
      refused="Nothing was discarded"
      keptIn="Needed. Kept with your name in the run's events."
      needsReason
      submit="Discard"
      destroys
      onSubmit={(reason) =>
        discard.mutate({ groups, reason }, { onSuccess: (outcomes) => outcomes.every(({ problem }) => !problem) && done() })
      }
      onClose={onClose}
    >
      <p className="soft">
        {groups.length === 1 ? "It is" : "They are"} taken out of the queue and counted as dropped (discarded): no trainer gets{" "}
        {groups.length === 1 ? "it" : "them"} any more, and that cannot be taken back. What was sampled can still be looked at. A group that
        a trainer holds, or has trained on, stays as it is.
      </p>
    </ReasonDialog>
  );
}
