import { api, results, useChange } from "@/api/client";
import { ReasonDialog } from "@/components/Dialog";
import { counted, number } from "@/format";

type Props = { run: string; groups: number[]; onDone?: () => void; onClose: () => void };

/** Discard queued or waiting groups permanently, with a reason; the error lists each group that was not discarded. */
export function DiscardDialog({ run, groups, onDone, onClose }: Props) {
  const discard = useChange(
    ["samples"],
    async (asked: { groups: number[]; reason: string }) => {
      const outcomes = await results(api.POST("/api/v1/runs/{run}/groups/discard", { params: { path: { run } }, body: asked }));
      const left = outcomes.filter(({ problem }) => problem).map(({ id, problem }) => `#${id} ${problem}`);
      if (left.length > 0)
        throw new Error(`${counted(left.length, "group")} of ${number(outcomes.length)}: ${left.slice(0, 20).join(" · ")}`);
    },
    ...["group", "queue", "ledger"].map((key) => [key, run]),
  );
  const done = () => {
    onClose();
    onDone?.();
  };
  return (
    <ReasonDialog
      title={`Discard ${groups.length === 1 ? `group ${groups[0]}` : counted(groups.length, "group")}`}
      asking={discard}
      refused="Not discarded"
      recordedIn="Required. Recorded with your name in the run's events."
      needsReason
      submit="Discard"
      destroys
      onSubmit={(reason) => discard.mutate({ groups, reason }, { onSuccess: done })}
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
