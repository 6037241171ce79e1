import { Button, Group, Progress, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { actOnRuns, type Which } from "@/api/runLists";
import { Dialog } from "@/components/Dialog";
import { ErrorState } from "@/components/ErrorState";
import { counted, visible } from "@/format";
import { type BulkAction, droppedText, summary } from "@/runs/bulk";
import type { ShownRun } from "@/runs/rows";
import css from "@/runs/runs.module.css";

type Props = { bulk: BulkAction; which: Which; runs: number; rows: ShownRun[]; filter: string; onClose: () => void };

/** Confirm a bulk action, run it in requests of 100 runs, and list the runs that failed with their errors. */
export function BulkDialog({ bulk, which, runs, rows, filter, onClose }: Props) {
  const queries = useQueryClient();
  const [reason, setReason] = useState("");
  const [tag, setTag] = useState("");
  const [typed, setTyped] = useState("");
  const [progress, setProgress] = useState({ done: 0, left: runs });
  const isAll = "q" in which && !which.q.trim();
  const needsNumber = isAll || bulk.drops;
  const dropped = droppedText(bulk, rows, runs);
  const asked = isAll ? { ...which, all_runs: runs } : which;
  const act = useMutation({
    mutationFn: () => actOnRuns({ action: bulk.action, which: asked, reason, tag }, (done, left) => setProgress({ done, left })),
    onSettled: () => queries.invalidateQueries({ queryKey: ["runs"] }),
  });
  const needsTag = bulk.action === "tag" || bulk.action === "untag";
  const refused = act.data?.filter(({ problem }) => problem) ?? [];
  const title = `${bulk.label}: ${counted(runs, "run")}`;
  return (
    <Dialog onClose={onClose} title={title} size="lg">
      <p className="soft">
        {bulk.does} {dropped && <b data-dropped>{dropped}</b>}
      </p>
      <p className="small">
        {"ids" in which ? (
          "The selected runs."
        ) : filter ? (
          <>
            All runs that match <code>{visible(filter)}</code> when the action runs.
          </>
        ) : (
          "All runs on the server."
        )}
      </p>
      {!act.isSuccess && (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            act.mutate();
          }}
        >
          {needsTag && <TextInput label="Tag" required value={tag} onChange={(event) => setTag(event.currentTarget.value)} mb="sm" />}
          {needsNumber && (
            <TextInput
              label="Number of runs"
              description={`The action applies to ${isAll ? "all " : ""}${counted(runs, "run")}. Type ${runs} to confirm.`}
              required
              inputMode="numeric"
              value={typed}
              onChange={(event) => setTyped(event.currentTarget.value)}
              mb="sm"
            />
          )}
          <TextInput
            label="Reason"
            description="Recorded in the history of each run."
            value={reason}
            required={bulk.drops}
            maxLength={2000}
            data-autofocus
            onChange={(event) => setReason(event.currentTarget.value)}
          />
          {act.isPending && <Progress mt="md" value={(100 * progress.done) / (progress.done + progress.left || 1)} aria-label="Progress" />}
          {act.isError && <ErrorState title="Bulk action failed" error={act.error} />}
          <Group className="dialog-foot" justify="flex-end" mt="md">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button
              type="submit"
              color={bulk.destroys ? "red.8" : undefined}
              loading={act.isPending}
              disabled={(needsNumber && typed.trim() !== String(runs)) || (bulk.drops && !reason.trim())}
            >
              {bulk.label}
            </Button>
          </Group>
        </form>
      )}
      {act.isSuccess && (
        <div role="status">
          <p>{summary(act.data)}</p>
          {refused.length > 0 && (
            <ul className={css.refused}>
              {refused.map((each) => (
                <li key={each.id}>
                  <b>{each.name}</b> <span className="soft">{visible(each.problem)}</span>
                </li>
              ))}
            </ul>
          )}
          <Group className="dialog-foot" justify="flex-end" mt="md">
            <Button data-autofocus onClick={onClose}>
              Close
            </Button>
          </Group>
        </div>
      )}
    </Dialog>
  );
}
