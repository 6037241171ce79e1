import { Button, Group, Paper, Stack, Text } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import type { Project } from "@/api/projects";
import { useCreateRun } from "@/api/runs";
import { useMayOperate } from "@/api/session";
import { ProjectTag } from "@/components/chips";
import { Guarded, Panel } from "@/components/panels";
import { visible } from "@/format";
import { ChangeList } from "@/forms/ChangeList";
import { ConfigPanel } from "@/forms/ConfigPanel";
import { essentialsOf } from "@/forms/fields";
import { defaultsText, type StartPreset } from "@/forms/launch";
import { type Start, useLaunch } from "@/forms/useLaunch";
import { Essentials } from "@/pages/launch/Essentials";
import { Findings } from "@/pages/launch/Findings";
import { PresetCards, SavePreset } from "@/pages/launch/Presets";
import css from "./launch.module.css";

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

export function LaunchForm({ start, presets }: { start: Start; presets: StartPreset[] }) {
  const { schema, preset, parent, project } = start;
  const navigate = useNavigate({ from: "/runs/new" });
  const mayOperate = useMayOperate();
  const create = useCreateRun();
  const state = useLaunch(start);
  const [isSaving, setSaving] = useState(false);
  const saved = presets.flatMap((each) => (each.saved ? [each.saved] : []));
  const from = parent ?? [preset?.name ?? "the defaults", ...(project ? [`project ${project.name}`] : [])].join(" in ");
  const errors = state.lines.length + state.loose.length + state.nameErrors.length;

  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!state.isReadable()) return;
    const onSuccess = (run: { name: string }) => {
      state.forget();
      void navigate({ to: "/runs/$name", params: { name: run.name } });
    };
    create.mutate({ ...state.launch, start: true }, { onSuccess, onError: state.refuse });
  };
  return (
    <form onSubmit={submit} noValidate className={css.launch} aria-label="Launch a run">
      <Stack gap="lg" miw={0}>
        <Guarded>
          {parent ? (
            <p className="soft">
              A clone of{" "}
              <Link to="/runs/$name" params={{ name: parent }}>
                {visible(parent)}
              </Link>
              : all fields are copied from it. <Link to="/runs/new">Start from a preset instead</Link>
            </p>
          ) : (
            <PresetCards presets={presets} chosen={preset} />
          )}
          {project && <ProjectLine project={project} isClone={parent !== undefined} />}
          <Essentials fields={essentialsOf(schema, state.config)} state={state} />
          <ConfigPanel state={state} schema={schema} />
        </Guarded>
      </Stack>
      <Stack component="aside" gap="lg" className={css.side} aria-label="Result">
        <Guarded>
          {state.full.data && <Findings check={state.full.data} isOld={state.isOld} onGo={state.go} />}
          <Panel title={`Changes (${state.changes.length})`}>
            <ChangeList changes={state.changes} from={visible(from)} />
          </Panel>
        </Guarded>
      </Stack>
      <Group component={Paper} px="md" py="sm" gap="sm" justify="flex-end" className={css.actions} role="group" aria-label="Actions">
        <Text size="sm" c={errors > 0 ? "bad" : "dimmed"} flex="1 1 20rem" role={errors > 0 ? "alert" : undefined}>
          {errors > 0
            ? `${errors} ${errors === 1 ? "error" : "errors"}.`
            : mayOperate
              ? "Check tries the environment and stores nothing. Launch starts the fleet, which waits for a trainer's weights."
              : "Launching requires the operator role."}
        </Text>
        <Button variant="subtle" disabled={!mayOperate} onClick={() => state.isReadable() && setSaving(true)}>
          Save as preset…
        </Button>
        <Button variant="default" loading={state.full.isPending} disabled={!mayOperate} onClick={state.check}>
          Check
        </Button>
        <Button type="submit" loading={create.isPending} disabled={!mayOperate}>
          Launch
        </Button>
      </Group>
      {isSaving && (
        <SavePreset config={state.config} from={preset?.saved} saved={saved} onSaved={state.forget} onClose={() => setSaving(false)} />
      )}
    </form>
  );
}
