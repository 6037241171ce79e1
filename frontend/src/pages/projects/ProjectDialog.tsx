import { TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { ApiProblem } from "@/api/problems";
import { type NewProject, type Project, useChangeProject, useCreateProject } from "@/api/projects";
import { schemaQuery } from "@/api/runs";
import { ReasonDialog } from "@/components/ReasonDialog";
import { visible } from "@/format";
import { presetsQuery } from "@/forms/api";
import { ConfigEditor } from "@/forms/ConfigPanel";
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

type Props = {
  /** The project to edit; undefined for a new one. */
  project?: Project;
  onSaved: (project: Project) => void;
  onClose: () => void;
};

/** Create a project, or edit one: its name, and its texts and defaults as YAML. */
export function ProjectDialog({ project, onSaved, onClose }: Props) {
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
    if (!project) return create.mutate({ ...body, name }, { onSuccess: onSaved });
    change.mutate({ ...body, ...(name === project.name ? {} : { name }) }, { onSuccess: onSaved });
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
