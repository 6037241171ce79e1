import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { projectChoicesQuery } from "@/api/projects";
import { useChangeRun } from "@/api/runs";
import type { RunDetail } from "@/api/types";
import { ReasonDialog } from "@/components/ReasonDialog";
import { RECORDED_IN_EVENTS } from "@/components/recordedIn";
import { visible } from "@/format";

/** Move a run into a project, or out of it. */
export default function ProjectOfRun({ run, onClose }: { run: RunDetail; onClose: () => void }) {
  const [project, setProject] = useState(run.project);
  const choices = useQuery(projectChoicesQuery);
  const change = useChangeRun(run.name);
  const names = (choices.data ?? []).map(({ name }) => name);
  // An archived project is not among the choices.
  const known = run.project && !names.includes(run.project) ? [run.project, ...names] : names;
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
        data={known}
        value={project}
        onChange={setProject}
      />
    </ReasonDialog>
  );
}
