import { Box, Select, TagsInput, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ApiProblem } from "@/api/problems";
import { type Project, useChangeProject, useCreateProject } from "@/api/projects";
import { schemaQuery } from "@/api/runs";
import { ReasonDialog } from "@/components/ReasonDialog";
import { visible } from "@/format";
import { presetsQuery } from "@/pages/launch/api";
import { choicesOf, startsOf } from "@/pages/launch/startPresets";
import { changeOf, creationOf, draftErrors, draftOf, type Field, type ProjectDraft, placedErrors } from "@/pages/projects/draft";

const TAGS_AT_MOST = 20;

type Props = {
  /** The project to edit; undefined for a new one. */
  project?: Project;
  onSaved: (project: Project) => void;
  onClose: () => void;
};

/** Create a project, or edit one. */
export function ProjectDialog({ project, onSaved, onClose }: Props) {
  const [draft, setDraft] = useState(draftOf(project));
  const schema = useQuery(schemaQuery);
  const saved = useQuery(presetsQuery);
  const create = useCreateProject();
  const change = useChangeProject(project?.name ?? "");
  const asking = project ? change : create;
  const problem = asking.error instanceof ApiProblem ? asking.error : null;
  const refused = placedErrors(problem?.fields ?? []);
  const own = draftErrors(draft);
  const errorOf = (field: Field) => own[field] ?? (refused[field] && visible(refused[field]));
  // A private preset is no default for others.
  const shared = (saved.data ?? []).filter(({ access }) => access !== "private");
  const set = (changes: Partial<ProjectDraft>) => setDraft((before) => ({ ...before, ...changes }));
  const submit = (reason: string) =>
    project
      ? change.mutate(changeOf(draft, project, reason), { onSuccess: onSaved })
      : create.mutate(creationOf(draft, reason), { onSuccess: onSaved });
  return (
    <ReasonDialog
      title={project ? `Edit project ${visible(project.name)}` : "New project"}
      asking={asking}
      refused="Project not saved"
      submit="Save"
      isReady={Object.keys(own).length === 0}
      onSubmit={submit}
      onClose={onClose}
    >
      <TextInput
        label="Name"
        description="Letters, digits, - and _; part of the URL of its page."
        data-autofocus
        maxLength={80}
        value={draft.name}
        error={draft.name === "" ? undefined : errorOf("name")}
        onChange={(event) => set({ name: event.currentTarget.value })}
      />
      <TextInput
        mt="sm"
        label="Title"
        maxLength={120}
        value={draft.title}
        error={errorOf("title")}
        onChange={(event) => set({ title: event.currentTarget.value })}
      />
      <Textarea
        mt="sm"
        label="Description"
        autosize
        minRows={2}
        maxRows={6}
        maxLength={2000}
        value={draft.description}
        error={errorOf("description")}
        onChange={(event) => set({ description: event.currentTarget.value })}
      />
      <Box component="fieldset" mt="md" bd={0} p={0}>
        <legend className="strong">Defaults of new runs</legend>
        <Select
          mt="xs"
          label="Preset"
          clearable
          placeholder="None"
          data={choicesOf(startsOf(schema.data?.presets ?? [], shared))}
          value={draft.preset || null}
          error={errorOf("preset")}
          onChange={(preset) => set({ preset: preset ?? "" })}
        />
        <TagsInput
          mt="sm"
          label="Tags"
          description="Letters, digits and _.:/+-; Enter adds one."
          maxTags={TAGS_AT_MOST}
          value={draft.tags}
          error={errorOf("tags")}
          onChange={(tags) => set({ tags })}
        />
        <Textarea
          mt="sm"
          label="Configuration"
          description="A JSON object, merged over the preset and under the values of a launch."
          placeholder='{"fleet": {"num_workers": 4}}'
          autosize
          minRows={3}
          maxRows={12}
          spellCheck={false}
          styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
          value={draft.config}
          error={errorOf("config")}
          onChange={(event) => set({ config: event.currentTarget.value })}
        />
      </Box>
    </ReasonDialog>
  );
}
