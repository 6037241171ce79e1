/** Menus and dialogs of the list of runs, loaded when the first is used. */

import { Menu, Progress, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type ActedOn, type Action, actOnRuns, columnsQuery, isNamed, type Which } from "@/api/runs";
import { Dialog, ReasonDialog } from "@/components/Dialog";
import { OpenedMenu, useOpened } from "@/components/OpenedMenu";
import type { MenuOf } from "@/components/onDemand";
import { counted, visible } from "@/format";
import { unitOf } from "@/runs/queued";
import type { ShownRun } from "@/runs/rows";
import css from "@/runs/runs.module.css";
import type { GroupBy } from "@/runs/search";

export type BulkAction = {
  action: Action;
  label: string;
  does: string;
  destroys?: boolean;
  /** Drops data: requires typing the number of runs and giving a reason. */
  drops?: boolean;
};

const BULK_ACTIONS: BulkAction[] = [
  { action: "pause", label: "Pause", does: "Stops generating new data; existing data is still accepted and served." },
  { action: "resume", label: "Resume", does: "Paused runs resume." },
  {
    action: "drain",
    label: "Drain",
    does: "Finishes open episodes, serves the queue until it is empty, then completes the runs.",
    destroys: true,
  },
  {
    action: "stop",
    label: "Stop",
    does: "Drains for at most 30 s, then stops; remaining data is dropped and counted.",
    destroys: true,
    drops: true,
  },
  { action: "tag", label: "Add a tag", does: "Adds a tag to runs that do not have it." },
  { action: "untag", label: "Remove a tag", does: "Removes a tag from runs that have it." },
  {
    action: "archive",
    label: "Archive",
    does: "Hides ended runs from the lists and frees their names. Nothing is deleted; is:archived finds them.",
    destroys: true,
  },
  { action: "unarchive", label: "Unarchive", does: "Returns archived runs to the lists and makes them editable." },
];

/** The data that an action would drop now, from the loaded rows: `512 sequences of 3 runs are queued now.`; empty if it drops none. */
function droppedText({ drops }: BulkAction, rows: Pick<ShownRun, "kind" | "queued">[], runs: number): string {
  if (!drops) return "";
  const holding = rows.filter(({ queued }) => queued);
  const parts = (["sequences", "fragments"] as const).flatMap((unit) => {
    const amount = holding.filter(({ kind }) => unitOf(kind) === unit).reduce((sum, { queued }) => sum + (queued ?? 0), 0);
    return amount ? [counted(amount, unit.slice(0, -1))] : [];
  });
  const scope = runs > rows.length ? `, in the ${counted(rows.length, "run")} loaded of ${counted(runs, "run")}` : "";
  if (parts.length === 0) return `No data is queued now${scope}.`;
  return `${parts.join(" and ")} of ${counted(holding.length, "run")} are queued now${scope}.`;
}

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

type BulkProps = { bulk: BulkAction; which: Which; runs: number; rows: ShownRun[]; filter: string; onClose: () => void };

/** Confirm a bulk action, and run it in requests of 100 runs. */
export function BulkDialog({ bulk, which, runs, rows, filter, onClose }: BulkProps) {
  const queries = useQueryClient();
  const [tag, setTag] = useState("");
  const [progress, setProgress] = useState({ done: 0, left: runs });
  const isAll = "q" in which && !which.q.trim();
  const dropped = droppedText(bulk, rows, runs);
  const asked = isAll ? { ...which, all_runs: runs } : which;
  const act = useMutation({
    mutationFn: (reason: string) =>
      actOnRuns({ action: bulk.action, which: asked, reason, tag }, (done, left) => setProgress({ done, left })),
    onSettled: () => queries.invalidateQueries({ queryKey: ["runs"] }),
  });
  const needsTag = bulk.action === "tag" || bulk.action === "untag";
  const title = `${bulk.label}: ${counted(runs, "run")}`;
  if (act.isSuccess) return <Results title={title} results={act.data} onClose={onClose} />;
  return (
    <ReasonDialog
      title={title}
      asking={act}
      refused="Bulk action failed"
      recordedIn="Recorded in the history of each run."
      submit={bulk.label}
      isReady={!needsTag || tag !== ""}
      typed={isAll || bulk.drops ? String(runs) : undefined}
      needsReason={bulk.drops}
      destroys={bulk.destroys}
      onSubmit={(reason) => act.mutate(reason)}
      onClose={onClose}
    >
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
      {needsTag && <TextInput label="Tag" required value={tag} onChange={(event) => setTag(event.currentTarget.value)} />}
      {act.isPending && <Progress value={(100 * progress.done) / (progress.done + progress.left || 1)} aria-label="Progress" />}
    </ReasonDialog>
  );
}

/** The actions on several runs. */
export function BulkMenu({ target, onPick }: MenuOf & { onPick: (bulk: BulkAction) => void }) {
  return (
    <OpenedMenu target={target} position="bottom-start">
      {BULK_ACTIONS.map((bulk) => (
        <Menu.Item key={bulk.action} onClick={() => onPick(bulk)}>
          {bulk.label}
        </Menu.Item>
      ))}
    </OpenedMenu>
  );
}

type GroupProps = { q: string; group: GroupBy | undefined; onGroup: (group: GroupBy | undefined) => void };

/** Choose what the list is grouped by. */
export function GroupSelect({ q, group, onGroup }: MenuOf & GroupProps) {
  const { opened, setOpened, button } = useOpened<HTMLInputElement>();
  const known = useQuery(columnsQuery(q, true)).data ?? [];
  const values = new Set([...(group ? [group] : []), ...known.filter((id) => id.startsWith("config."))]);
  return (
    <Select
      ref={button}
      size="xs"
      aria-label="Group by"
      placeholder="Group by"
      searchable
      clearable
      limit={50}
      data={[
        { value: "project", label: "Project" },
        { value: "tag", label: "Tag" },
        ...[...values].filter(isNamed).map((id) => ({ value: id, label: visible(id) })),
      ]}
      value={group ?? null}
      onChange={(value) => onGroup((value as GroupBy | null) ?? undefined)}
      dropdownOpened={opened}
      onDropdownOpen={() => setOpened(true)}
      onDropdownClose={() => setOpened(false)}
    />
  );
}
