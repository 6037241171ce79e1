import { api, at, body, useChange } from "@/api/client";
import { RECORDED_IN_EVENTS, ReasonDialog } from "@/components/Dialog";
import { counted } from "@/format";

type Props = { run: string; groups: number[]; onDone?: () => void; onClose: () => void };

/** Discard groups permanently, with a reason; the error lists the groups that were not discarded. */
export function DiscardDialog({ run, groups, onDone, onClose }: Props) {
  const path = "/api/v1/runs/{run}/groups/discard";
  const discard = useChange(
    ["samples"],
    async (reason: string) => {
      const { results } = await body(api.POST(path, { ...at(run), body: { groups, reason } }));
      const kept = results.flatMap(({ id, problem }) => (problem ? [`#${id} ${problem}`] : []));
      if (kept.length > 0) throw new Error(kept.join("; "));
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
      recordedIn={`Required. ${RECORDED_IN_EVENTS}`}
      needsReason
      submit="Discard"
      destroys
      onSubmit={(reason) => discard.mutate(reason, { onSuccess: done })}
      onClose={onClose}
    >
      <p className="soft">
        No trainer receives {groups.length === 1 ? "the group" : "the groups"} afterwards. This cannot be undone. Stored trajectories stay
        viewable. Groups that are leased or already trained on are not changed.
      </p>
    </ReasonDialog>
  );
}
