import { Button, Select, TextInput } from "@mantine/core";
import { Link, useNavigate } from "@tanstack/react-router";
import { type FormEvent, useEffect, useState } from "react";
import { useCheckRun, useCreateRun } from "@/api/runs";
import { visible } from "@/format";
import type { JsonSchema } from "@/forms/fields";
import { changesOf, overlayOf } from "@/pages/launch/changes";
import type { Launch } from "@/pages/launch/commands";
import { saveDraft } from "@/pages/launch/draft";
import { SectionPanel } from "@/pages/launch/FieldInput";
import { LaunchAside } from "@/pages/launch/LaunchAside";
import { SavedPresets } from "@/pages/launch/SavedPresets";
import { choicesOf, type StartPreset } from "@/pages/launch/startPresets";
import { type Config, NAME_HELP, type Start, useLaunch } from "@/pages/launch/useLaunch";

/** Scroll to the first invalid field and focus it. */
function goToFirstError(): void {
  const wrong = document.querySelector<HTMLElement>("[aria-invalid=true]");
  wrong?.scrollIntoView({ block: "center" });
  wrong?.focus();
}

/** The launch request: the preset with overrides, or the full configuration if the preset has extra fields. */
function launchOf(name: string, config: Config, preset: StartPreset | undefined): Launch {
  const overlay = preset && overlayOf(changesOf(preset.config, { ...preset.config, ...config }));
  return overlay ? { name, preset: preset.name, config: overlay } : { name, preset: "", config };
}

type LaunchFormProps = {
  schema: JsonSchema;
  presets: StartPreset[];
  start: Start;
  preset: StartPreset | undefined;
  parent: string | undefined;
};

export function LaunchForm({ schema, presets, start, preset, parent }: LaunchFormProps) {
  const navigate = useNavigate({ from: "/runs/new" });
  const create = useCreateRun();
  const check = useCheckRun();
  const state = useLaunch(schema, start);
  const launch = launchOf(state.name, state.config, preset);
  const { errors } = state;
  const [isListing, setListing] = useState(false);
  const saved = presets.flatMap((each) => (each.saved ? [each.saved] : []));
  useEffect(() => {
    if (Object.keys(errors.fields).length > 0) goToFirstError();
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
  const from = parent ?? preset?.name ?? "the defaults";
  return (
    <form onSubmit={submit} noValidate className="launch" aria-label="Launch a run">
      <div className="launch-sections">
        <fieldset className="panel section">
          <legend>Run</legend>
          <div className="fields">
            <TextInput
              label="Name"
              description={NAME_HELP}
              data-field="name"
              data-autofocus
              value={state.name}
              error={errors.fields.name}
              onChange={(event) => state.setName(event.currentTarget.value)}
            />
            {parent ? (
              <p className="two-wide soft">
                A clone of{" "}
                <Link to="/runs/$name" params={{ name: parent }}>
                  {visible(parent)}
                </Link>
                : all fields are copied from it. <Link to="/runs/new">Start from a preset instead</Link>
              </p>
            ) : (
              <Select
                label="Preset"
                className="two-wide"
                description={
                  <>
                    Initial values of the fields below: a {state.kind} run.{" "}
                    <button type="button" className="link-button" onClick={() => setListing(true)}>
                      Saved presets
                    </button>
                  </>
                }
                data={choicesOf(presets)}
                value={preset?.name ?? null}
                allowDeselect={false}
                onChange={(value) => void navigate({ search: (old) => ({ ...old, preset: value ?? undefined }) })}
              />
            )}
          </div>
          {state.isTouched && (
            <p className="small soft draft">
              Unsaved draft; stored in this browser until launch.{" "}
              <Button variant="subtle" size="compact-xs" onClick={state.reset}>
                Discard
              </Button>
            </p>
          )}
        </fieldset>
        {state.sections.map((section) => (
          <SectionPanel
            key={section.name}
            section={section}
            answers={state.answers}
            standard={state.standard}
            from={from}
            errors={errors.fields}
            onChange={state.change}
          />
        ))}
      </div>
      {isListing && <SavedPresets presets={saved} onClose={() => setListing(false)} />}
      <LaunchAside
        state={state}
        start={start.key}
        preset={preset?.saved}
        saved={saved}
        from={from}
        launch={launch}
        isLaunching={create.isPending}
        check={{
          data: check.data,
          isPending: check.isPending,
          isOld: JSON.stringify(check.variables) !== JSON.stringify(launch),
          run: look,
        }}
      />
    </form>
  );
}
