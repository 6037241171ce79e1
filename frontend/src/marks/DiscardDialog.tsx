import { Button, Group } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";
import { Dialog, ReasonDialog } from "@/components/Dialog";
import { counted, number } from "@/format";

type DiscardOutcome = components["schemas"]["DiscardOutcome"];
type AskedDiscard = { groups: number[]; reason: string };

/** Discard queued or waiting groups; the response lists each group that was not discarded, with the reason. */
function useDiscardGroups(run: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (asked: AskedDiscard): Promise<DiscardOutcome[]> =>
      (await body(api.POST("/api/v1/runs/{run}/groups/discard", { params: { path: { run } }, body: asked }))).results,
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: ["samples"] });
      for (const key of ["group", "queue", "ledger"]) void queries.invalidateQueries({ queryKey: [key, run] });
    },
  });
}

type Props = { run: string; groups: number[]; onDone?: () => void; onClose: () => void };

/** Groups that were not discarded, each with its reason. */
function Left({ problems, of, onClose }: { problems: { id: number; problem: string }[]; of: number; onClose: () => void }) {
  return (
    <Dialog onClose={onClose} title={`${counted(problems.length, "group")} of ${number(of)} not discarded`}>
      <ul className="small">
        {problems.slice(0, 20).map(({ id, problem }) => (
          <li key={id}>
            <span className="mono">#{id}</span> {problem}
          </li>
        ))}
      </ul>
      {problems.length > 20 && <p className="faint small">… and {number(problems.length - 20)} more.</p>}
      <Group className="dialog-foot" justify="flex-end" mt="lg">
        <Button data-autofocus onClick={onClose}>
          Close
        </Button>
      </Group>
    </Dialog>
  );
}

/** Discard groups permanently, with a reason; leased groups are skipped. */
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
      title={`Discard ${groups.length === 1 ? `group ${groups[0]}` : counted(groups.length, "group")}`}
      asking={discard}
      refused="Discard failed"
      recordedIn="Required. Recorded with your name in the run's events."
      needsReason
      submit="Discard"
      destroys
      onSubmit={(reason) =>
        discard.mutate({ groups, reason }, { onSuccess: (outcomes) => outcomes.every(({ problem }) => !problem) && done() })
      }
      onClose={onClose}
    >
      <p className="soft">
        {groups.length === 1 ? "It is" : "They are"} removed from the queue and counted as dropped (discarded). No trainer receives{" "}
        {groups.length === 1 ? "it" : "them"} afterwards. This cannot be undone. Stored trajectories stay viewable. Groups that are leased
        or already trained on are not changed.
      </p>
    </ReasonDialog>
  );
}
