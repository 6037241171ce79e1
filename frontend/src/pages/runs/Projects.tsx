/** The projects that runs belong to, in a dialog of the list of runs. */

import { Button, Group, Switch, TextInput, VisuallyHidden } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { ApiProblem } from "@/api/client";
import { type NewProject, type Project, projectsQuery, useChangeProject, useCreateProject, useDeleteProject } from "@/api/projects";
import { schemaQuery } from "@/api/runs";
import { useMayOperate } from "@/api/session";
import { DataTable } from "@/components/DataTable";
import { Dialog, ReasonDialog } from "@/components/Dialog";
import { term } from "@/components/filter/suggest";
import { EmptyState, rolldeckCommand } from "@/components/panels";
import { counted, visible } from "@/format";
import { presetsQuery } from "@/forms/api";
import { ConfigEditor } from "@/forms/ConfigPanel";
import { defaultsText } from "@/forms/launch";
import { type Config, isConfig, type JsonSchema } from "@/forms/schema";
import { type Place, placesIn, readYaml, yamlOf } from "@/forms/yaml";

/** The schema of a project's YAML; that of its configuration is the run's. */
function schemaOf(run: JsonSchema, presets: string[]): JsonSchema {
  const defaults: Record<string, JsonSchema> = {
    preset: { type: "string", description: "Preset of new runs; built in or shared.", enum: presets },
    tags: { type: "array", description: "Tags of new runs.", items: { type: "string" } },
    config: { ...run, description: "Configuration, merged over the preset and under the values of a launch." },
  };
  const properties = { title: { type: "string" }, description: { type: "string" }, defaults: { properties: defaults } };
  return { $defs: run.$defs, properties };
}

/** The texts and defaults of a project; missing ones are empty. */
function bodyOf(given: Partial<Project> | Config): Config {
  const { title = "", description = "", defaults, ...rest } = given;
  const whole = { preset: "", tags: [], config: {}, ...(isConfig(defaults) ? defaults : {}) };
  return { title, description, defaults: defaults === undefined || isConfig(defaults) ? whole : defaults, ...rest };
}

/** Create a project, or edit one: its name, and its texts and defaults as YAML. */
function EditDialog({ project, onClose }: { project?: Project; onClose: () => void }) {
  const { title, description, defaults } = project ?? {};
  const [name, setName] = useState(project?.name ?? "");
  const [text, setText] = useState(() => yamlOf(bodyOf({ title, description, defaults })));
  const [target, setTarget] = useState<Place | null>(null);
  const schema = useQuery(schemaQuery);
  const saved = useQuery(presetsQuery);
  const create = useCreateProject();
  const change = useChangeProject(project?.name ?? "");
  const asking = project ? change : create;
  const read = useMemo(() => readYaml(text), [text]);
  const refused = asking.error instanceof ApiProblem ? asking.error.fields : [];
  const errors = useMemo(() => {
    if (read.problem) return [read.problem];
    const place = placesIn(text);
    return refused
      .filter(({ field }) => field !== "name")
      .map((each) => ({ ...(place(each.field) ?? { from: 0, to: 0 }), message: visible(each.message) }));
  }, [read, text, refused]);
  const wrongName = refused.find(({ field }) => field === "name")?.message;
  // A private preset is no default for others.
  const shared = (saved.data ?? []).filter(({ access }) => access !== "private");
  const presets = [...(schema.data?.presets ?? []), ...shared].map((each) => each.name);
  const submit = (reason: string) => {
    if (read.problem) return setTarget({ ...read.problem });
    const body = { ...bodyOf(read.config), reason } as Omit<NewProject, "name">;
    if (!project) return create.mutate({ ...body, name }, { onSuccess: onClose });
    change.mutate({ ...body, ...(name === project.name ? {} : { name }) }, { onSuccess: onClose });
  };
  return (
    <ReasonDialog
      title={project ? `Edit project ${visible(project.name)}` : "New project"}
      asking={asking}
      refused="Project not saved"
      submit="Save"
      isReady={name !== ""}
      onSubmit={submit}
      onClose={onClose}
    >
      <TextInput
        label="Name"
        description="Letters, digits, - and _; part of the URL of its page."
        data-autofocus
        mb="sm"
        value={name}
        error={wrongName && visible(wrongName)}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      {schema.data && (
        <ConfigEditor
          text={text}
          label="Project as YAML"
          schema={schemaOf(schema.data.schema, presets)}
          names={{}}
          errors={errors}
          target={target}
          onChange={setText}
        />
      )}
      {read.problem && <p className="small bad">{read.problem.message}</p>}
    </ReasonDialog>
  );
}

type Verb = "archive" | "restore" | "delete";

const CONFIRM: Record<Verb, { label: string; done: string; effect: string }> = {
  delete: { label: "Delete", done: "deleted", effect: "Its archived runs stay, without a project." },
  archive: { label: "Archive", done: "archived", effect: "Its runs stay in it and continue. No run can be added to it." },
  restore: { label: "Restore", done: "restored", effect: "Runs can be added to it again." },
};

/** Archive, restore or delete a project, with a reason. */
function ConfirmDialog({ project, verb, onClose }: { project: Project; verb: Verb; onClose: () => void }) {
  const change = useChangeProject(project.name);
  const remove = useDeleteProject(project.name);
  const { label, done, effect } = CONFIRM[verb];
  const isDeleted = verb === "delete";
  const isFull = isDeleted && project.runs > 0;
  const onSuccess = onClose;
  return (
    <ReasonDialog
      title={`${label} project ${visible(project.name)}`}
      asking={isDeleted ? remove : change}
      refused={`Project not ${done}`}
      submit={label}
      destroys={isDeleted}
      isReady={!isFull}
      onSubmit={(reason) => {
        if (isDeleted) remove.mutate(reason, { onSuccess });
        else change.mutate({ archived: verb === "archive", defaults: {}, reason }, { onSuccess });
      }}
      onClose={onClose}
    >
      {isFull ? `It has ${counted(project.runs, "run")}. Move them to another project first, or archive the project.` : effect}
    </ReasonDialog>
  );
}

type ListProps = { onOpen: (opened: { verb: Verb | "edit"; project?: Project }) => void; onClose: () => void };

function List({ onOpen, onClose }: ListProps) {
  const mayOperate = useMayOperate();
  const [isArchived, setArchived] = useState(false);
  const list = useInfiniteQuery(projectsQuery(isArchived));
  return (
    <Dialog onClose={onClose} title="Projects" size="xl">
      <Group justify="space-between" mb="sm">
        <Switch label="Archived" checked={isArchived} onChange={(event) => setArchived(event.currentTarget.checked)} />
        {mayOperate && <Button onClick={() => onOpen({ verb: "edit" })}>New project</Button>}
      </Group>
      <DataTable<Project>
        label="Projects"
        rows={list.data?.pages.flatMap(({ results }) => results)}
        error={list.error}
        pages={list}
        empty={
          <EmptyState
            title={isArchived ? "No archived projects" : "No projects yet"}
            command={rolldeckCommand("api POST projects name=mazes")}
            needs={{ scope: "user" }}
          >
            A project groups runs and gives new ones a preset, a configuration and tags. An archived project takes no runs.
          </EmptyState>
        }
        keyOf={({ name }) => name}
        attributes={({ name }) => ({ "data-row": true, "data-project": name })}
        columns={[
          {
            id: "name",
            label: "Project",
            value: ({ name }) => name,
            cell: (project) => (
              <>
                <Link to="/runs" search={{ q: term("project", project.name) }} className="anywhere" data-strong onClick={onClose}>
                  {visible(project.name)}
                </Link>
                <div className="soft small anywhere">
                  {visible([project.title, project.description].filter(Boolean).join(": "))}
                  <div className="faint" data-defaults>
                    {project.defaults.preset && `preset ${visible(project.defaults.preset)}; `}
                    {visible(defaultsText(project))}
                  </div>
                </div>
              </>
            ),
          },
          { label: "Runs", isNumber: true, value: ({ runs }) => runs },
          mayOperate && {
            id: "actions",
            label: <VisuallyHidden>Actions</VisuallyHidden>,
            cell: (project) => (
              <Group gap={4} justify="flex-end">
                {!project.archived_at && (
                  <Button size="compact-xs" renderRoot={(props) => <Link to="/runs/new" search={{ project: project.name }} {...props} />}>
                    Launch
                  </Button>
                )}
                {(["edit", project.archived_at ? "restore" : "archive", "delete"] as const).map((verb) => (
                  <Button key={verb} size="compact-xs" variant="default" onClick={() => onOpen({ verb, project })}>
                    {verb === "edit" ? "Edit" : CONFIRM[verb].label}
                  </Button>
                ))}
              </Group>
            ),
          },
        ]}
      />
    </Dialog>
  );
}

/** The list of projects, and the dialogs of one. */
export function Projects({ onClose }: { onClose: () => void }) {
  const [opened, setOpened] = useState<{ verb: Verb | "edit"; project?: Project } | null>(null);
  const back = () => setOpened(null);
  if (!opened) return <List onOpen={setOpened} onClose={onClose} />;
  const { verb, project } = opened;
  if (verb === "edit" || !project) return <EditDialog project={project} onClose={back} />;
  return <ConfirmDialog project={project} verb={verb} onClose={back} />;
}
