/** Dialogs of the menu of a run. */

import { Select, TagsInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { projectChoicesQuery } from "@/api/projects";
import { deletionQuery, useChangeRun, useDeleteRun, useSetTags, valuesQuery } from "@/api/runs";
import type { RunDetail } from "@/api/types";
import { RECORDED_IN_EVENTS, ReasonDialog } from "@/components/Dialog";
import { bytes, counted, visible } from "@/format";
import { unitOf } from "@/runs/queued";

type Props = { run: RunDetail; title: string; onClose: () => void };

const TAGS_AT_MOST = 20;

/** Delete an ended run, with its name and a reason; shows the data that will be removed. */
function DeleteRun({ run, title, onClose }: Props) {
  const navigate = useNavigate();
  const { data: preview } = useQuery(deletionQuery(run.name));
  const remove = useDeleteRun(run.name);
  const unit = run.kind === "fleet" ? unitOf(run.kind).slice(0, -1) : "group";
  return (
    <ReasonDialog
      title={`Delete ${visible(title)}?`}
      asking={remove}
      refused="Delete failed"
      submit="Delete"
      isReady={preview?.refusal === ""}
      typed={title}
      needsReason
      destroys
      onSubmit={(reason) => remove.mutate(reason, { onSuccess: () => void navigate({ to: "/runs" }) })}
      onClose={onClose}
    >
      The run disappears at once and its name is free. Its rows and files are removed in the background. This cannot be undone.{" "}
      {preview && (
        <b data-deleted>
          {visible(preview.refusal) || `${counted(preview.items, unit)} and ${bytes(preview.size_bytes)} will be removed.`}
        </b>
      )}
    </ReasonDialog>
  );
}

/** Move a run into a project, or out of it. */
function ProjectOfRun({ run, onClose }: Props) {
  const [project, setProject] = useState(run.project);
  const choices = useQuery(projectChoicesQuery);
  const change = useChangeRun(run.name);
  const names = (choices.data ?? []).map(({ name }) => name);
  return (
    <ReasonDialog
      title={`Project of ${visible(run.name)}`}
      asking={change}
      refused="Project not changed"
      recordedIn={RECORDED_IN_EVENTS}
      submit="Save"
      isReady={project !== run.project}
      onSubmit={(reason) => change.mutate({ project, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <Select
        label="Project"
        description="The run keeps its configuration."
        placeholder="None"
        nothingFoundMessage="No such project"
        searchable
        clearable
        data-autofocus
        // An archived project is not among the choices.
        data={[...new Set(run.project ? [run.project, ...names] : names)]}
        value={project}
        onChange={setProject}
      />
    </ReasonDialog>
  );
}

/** Edit the tags of a run, with suggestions from other runs. */
function TagsOfRun({ run, onClose }: Props) {
  const [tags, setTags] = useState(run.tags);
  const [part, setPart] = useState("");
  const known = useQuery(valuesQuery("tag", part));
  const set = useSetTags(run.name);
  return (
    <ReasonDialog
      title={`Tags of ${run.name}`}
      asking={set}
      refused="Tags not saved"
      recordedIn={RECORDED_IN_EVENTS}
      submit="Save"
      isReady={[...tags].sort().join(" ") !== [...run.tags].sort().join(" ")}
      onSubmit={(reason) => set.mutate({ tags, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <TagsInput
        label="Tags"
        description="Letters, digits and _.:/+-; Enter adds one."
        data={(known.data ?? []).map(({ value }) => value)}
        maxTags={TAGS_AT_MOST}
        openOnFocus={false}
        data-autofocus
        value={tags}
        searchValue={part}
        onSearchChange={setPart}
        onChange={setTags}
      />
    </ReasonDialog>
  );
}

const DIALOGS = { delete: DeleteRun, project: ProjectOfRun, tags: TagsOfRun };

export type RunDialogName = keyof typeof DIALOGS;

export function RunDialog({ name, ...props }: Props & { name: RunDialogName }) {
  const Shown = DIALOGS[name];
  return <Shown {...props} />;
}
