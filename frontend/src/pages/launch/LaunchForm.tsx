import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type FormEvent, useEffect, useState } from "react";
import type { Project } from "@/api/projects";
import { useCheckRun, useCreateRun } from "@/api/runs";
import { ProjectTag } from "@/components/ProjectTag";
import { visible } from "@/format";
import type { Origin } from "@/forms/answers";
import type { JsonSchema } from "@/forms/fields";
import { changesOf, overlayOf } from "@/pages/launch/changes";
import type { Launch } from "@/pages/launch/commands";
import { saveDraft } from "@/pages/launch/draft";
import { EnvironmentNames } from "@/pages/launch/EnvironmentNames";
import { FieldSearch } from "@/pages/launch/FieldSearch";
import { focusField, focusFirstError } from "@/pages/launch/focusing";
import type { Config } from "@/pages/launch/kinds";
import { LaunchActions } from "@/pages/launch/LaunchActions";
import { LaunchAside } from "@/pages/launch/LaunchAside";
import { PresetCards } from "@/pages/launch/PresetCards";
import { defaultsText, launchIn } from "@/pages/launch/projectDefaults";
import { SavedPresets } from "@/pages/launch/SavedPresets";
import { SavePreset } from "@/pages/launch/SavePreset";
import type { StartPreset } from "@/pages/launch/startPresets";
import { EssentialsPanel, SectionPanels } from "@/pages/launch/TierPanels";
import { fieldOfChange } from "@/pages/launch/tiers";
import { type LaunchState, type Start, useLaunch } from "@/pages/launch/useLaunch";

const TIERS = "launch-tiers";

/** The launch request: the preset with overrides, or the full configuration if the preset has extra fields. */
function launchOf(name: string, config: Config, preset: StartPreset | undefined): Launch {
  const overlay = preset && overlayOf(changesOf(preset.config, { ...preset.config, ...config }));
  return overlay ? { name, preset: preset.name, config: overlay } : { name, preset: "", config };
}

/** Return a function that opens the section of a field and focuses the field. */
function useGoing(state: LaunchState): (path: string) => void {
  const [target, setTarget] = useState<string | null>(null);
  useEffect(() => {
    if (target === null) return;
    focusField(target);
    setTarget(null);
  }, [target]);
  return (path) => {
    const field = fieldOfChange(state.sections, path.replace(/\[.*$/, ""));
    const section = state.sections.find(({ fields }) => fields.some((each) => each === field));
    state.setQuery("");
    if (section && !field?.isEssential) state.expand([section.name]);
    setTarget(path);
  };
}

/** The run that a clone copies. */
function ParentNote({ parent }: { parent: string }) {
  return (
    <p className="soft">
      A clone of{" "}
      <Link to="/runs/$name" params={{ name: parent }}>
        {visible(parent)}
      </Link>
      : all fields are copied from it. <Link to="/runs/new">Start from a preset instead</Link>
    </p>
  );
}

/** The project of the launch and the values that it sets. */
function ProjectLine({ project, isClone }: { project: Project; isClone: boolean }) {
  const { project: _project, ...without } = useSearch({ from: "/shell/runs/new" });
  return (
    <p className="small soft" data-project={project.name}>
      In project <ProjectTag name={project.name} />
      {isClone ? "; a clone does not take its defaults. " : `, which ${visible(defaultsText(project))}. `}
      <Link to="/runs/new" search={without}>
        Launch without a project
      </Link>
    </p>
  );
}

type LaunchFormProps = {
  schema: JsonSchema;
  presets: StartPreset[];
  start: Start;
  preset: StartPreset | undefined;
  parent: string | undefined;
  /** The project of the run; its defaults are part of the presets. */
  project: Project | undefined;
};

export function LaunchForm({ schema, presets, start, preset, parent, project }: LaunchFormProps) {
  const navigate = useNavigate({ from: "/runs/new" });
  const create = useCreateRun();
  const check = useCheckRun();
  const state = useLaunch(schema, start);
  const go = useGoing(state);
  const launch = launchIn(project, launchOf(state.name, state.whole, preset));
  const { errors } = state;
  const [dialog, setDialog] = useState<"list" | "save" | null>(null);
  const saved = presets.flatMap((each) => (each.saved ? [each.saved] : []));
  useEffect(() => {
    if (Object.keys(errors.fields).length > 0) focusFirstError();
    // Only a new set of errors moves the focus, not a shorter one.
  }, [errors.loose]);

  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!state.validate(true)) return;
    const onSuccess = (run: { name: string }) => {
      saveDraft(start.key, null);
      void navigate({ to: "/runs/$name", params: { name: run.name } });
    };
    create.mutate({ ...launch, start: true }, { onSuccess, onError: state.refuse });
  };
  const look = () => {
    if (!state.validate(false)) return;
    check.mutate(launch, {
      onSuccess: ({ findings }) => state.place(findings.filter(({ level, field }) => level === "error" && field !== "")),
      onError: state.refuse,
    });
  };
  const chosen = [preset?.name ?? "the defaults", ...(project ? [`project ${project.name}`] : [])].join(" in ");
  const origin: Origin = { name: parent ?? chosen, isPreset: parent === undefined };
  const checking = {
    data: check.data,
    isPending: check.isPending,
    isOld: JSON.stringify(check.variables) !== JSON.stringify(launch),
    run: look,
  };
  return (
    <form onSubmit={submit} noValidate className="launch" aria-label="Launch a run">
      <div className="launch-sections">
        {parent ? (
          <ParentNote parent={parent} />
        ) : (
          <PresetCards presets={presets} chosen={preset?.name} onManage={() => setDialog("list")} />
        )}
        {project && <ProjectLine project={project} isClone={parent !== undefined} />}
        <FieldSearch state={state} within={TIERS} />
        <div id={TIERS} className="launch-sections">
          <EssentialsPanel state={state} origin={origin} />
          <SectionPanels state={state} origin={origin} />
        </div>
        <EnvironmentNames isLanguage={state.kind === "language"} />
      </div>
      <LaunchAside state={state} from={origin.name} launch={launch} check={checking} onGo={go} />
      <LaunchActions
        state={state}
        check={checking}
        isLaunching={create.isPending}
        onSave={() => state.validate(false) && setDialog("save")}
      />
      {dialog === "list" && <SavedPresets presets={saved} onClose={() => setDialog(null)} />}
      {dialog === "save" && (
        <SavePreset
          config={state.config}
          runName={state.name}
          start={start.key}
          from={preset?.saved}
          saved={saved}
          onClose={() => setDialog(null)}
        />
      )}
    </form>
  );
}
