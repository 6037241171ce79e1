/** Menus and dialogs of the list of runs, loaded when the first is used. */

import { Menu, Progress, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type ActedOn, type Action, actOnRuns, type Which } from "@/api/runs";
import { Dialog, ReasonDialog } from "@/components/Dialog";
import { OpenedMenu } from "@/components/OpenedMenu";
import type { MenuOf } from "@/components/onDemand";
import { counted, visible } from "@/format";
import { ACTIONS, BULK, droppedOfAll } from "@/runs/actions";
import type { ShownRun } from "@/runs/rows";
import css from "@/runs/runs.module.css";

/** The results of a bulk action, with the errors of the runs that failed. */
function Results({ title, results, onClose }: { title: string; results: ActedOn[]; onClose: () => void }) {
  const refused = results.filter(({ problem }) => problem);
  const done = `Done for ${counted(results.length - refused.length, "run")}`;
  return (
    <Dialog onClose={onClose} title={title} size="lg">
      <div role="status">
        {refused.length === 0 ? `${done}.` : `${done}; failed for ${counted(refused.length, "run")}:`}
        {refused.length > 0 && (
          <ul className={css.refused}>
            {refused.map(({ id, name, problem }) => (
              <li key={id}>
                <b>{name}</b> <span className="soft">{visible(problem)}</span>
              </li>
            ))}
          </ul>
        )}
      </div>
    </Dialog>
  );
}

type BulkProps = { action: Action; which: Which; runs: number; rows: ShownRun[]; filter: string; onClose: () => void };

/** Confirm a bulk action, and run it in requests of 100 runs. */
export function BulkDialog({ action, which, runs, rows, filter, onClose }: BulkProps) {
  const queries = useQueryClient();
  const [tag, setTag] = useState("");
  const [progress, setProgress] = useState({ done: 0, left: runs });
  const isAll = "q" in which && !which.q.trim();
  const { label, does, typed, destroys } = ACTIONS[action];
  const dropped = droppedOfAll(action, rows, runs);
  const asked = isAll ? { ...which, all_runs: runs } : which;
  const act = useMutation({
    mutationFn: (reason: string) => actOnRuns({ action, which: asked, reason, tag }, (done, left) => setProgress({ done, left })),
    onSettled: () => queries.invalidateQueries({ queryKey: ["runs"] }),
  });
  const needsTag = action === "tag" || action === "untag";
  const title = `${label}: ${counted(runs, "run")}`;
  if (act.isSuccess) return <Results title={title} results={act.data} onClose={onClose} />;
  return (
    <ReasonDialog
      title={title}
      asking={act}
      refused="Bulk action failed"
      recordedIn="Recorded in the history of each run."
      submit={label}
      isReady={!needsTag || tag !== ""}
      typed={isAll || typed ? String(runs) : undefined}
      needsReason={typed}
      destroys={destroys}
      onSubmit={(reason) => act.mutate(reason)}
      onClose={onClose}
    >
      <p className="soft">
        {does} {dropped && <b data-dropped>{dropped}</b>}
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
      {needsTag && <TextInput label="Tag" required value={tag} onChange={(event) => setTag(event.currentTarget.value)} />}
      {act.isPending && <Progress value={(100 * progress.done) / (progress.done + progress.left || 1)} aria-label="Progress" />}
    </ReasonDialog>
  );
}

/** The actions on several runs. */
export function BulkMenu({ target, onPick }: MenuOf & { onPick: (action: Action) => void }) {
  return (
    <OpenedMenu target={target} position="bottom-start">
      {BULK.map((action) => (
        <Menu.Item key={action} onClick={() => onPick(action)}>
          {ACTIONS[action].label}
        </Menu.Item>
      ))}
    </OpenedMenu>
  );
}
