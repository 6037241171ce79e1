import "@/pages/launch.css";
import { Button, Group, Select, Switch, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useEffect, useMemo, useState } from "react";
import { ApiProblem } from "@/api/problems";
import { schemaQuery, useCreateRun } from "@/api/runs";
import { useMayOperate } from "@/api/session";
import type { Preset } from "@/api/types";
import { ErrorState } from "@/components/ErrorState";
import { Skeletons } from "@/components/Skeletons";
import { visible } from "@/format";
import { type Answers, answersOf, collect, type Field, placeErrors, type Section, sectionsOf, standardText } from "@/forms/fields";

const NAME = /^[a-zA-Z0-9_-]{1,80}$/;
const NAME_HELP = "Letters, digits, - and _; part of every address of the run.";

function label(field: Field) {
  return (
    <>
      {field.title}
      {field.unit && <span className="faint"> · {field.unit}</span>}
    </>
  );
}

function description(field: Field, standard: string | boolean) {
  const given = standardText(field, standard);
  return (
    <>
      {field.help} {field.range && <span className="nowrap">{field.range}.</span>}{" "}
      {given && <span className="nowrap">Default {given}.</span>}
    </>
  );
}

type InputProps = { field: Field; answer: string | boolean; standard: string | boolean; error?: string; onChange: (answer: string | boolean) => void };

function FieldInput({ field, answer, standard, error, onChange }: InputProps) {
  const common = { label: label(field), description: description(field, standard), error, "data-field": field.path };
  if (field.kind === "switch") {
    return <Switch {...common} checked={answer === true} onChange={(event) => onChange(event.currentTarget.checked)} />;
  }
  if (field.kind === "choice") {
    return (
      <Select {...common} data={field.choices} value={String(answer)} allowDeselect={false} onChange={(value) => onChange(value ?? "")} />
    );
  }
  const changed = answer !== standard;
  const numeric = field.kind === "integer" || field.kind === "number";
  return (
    <TextInput
      {...common}
      inputMode={numeric ? "decimal" : undefined}
      value={String(answer)}
      placeholder={field.optional ? "empty" : undefined}
      onChange={(event) => onChange(event.currentTarget.value)}
      rightSectionWidth={changed ? 58 : undefined}
      rightSection={
        changed ? (
          <Button variant="subtle" size="compact-xs" title={`Back to ${String(standard) || "empty"}`} onClick={() => onChange(standard)}>
            undo
          </Button>
        ) : null
      }
    />
  );
}

type SectionProps = { section: Section; answers: Answers; standard: Answers; errors: Record<string, string>; onChange: (path: string, answer: string | boolean) => void };

function SectionPanel({ section, answers, standard, errors, onChange }: SectionProps) {
  return (
    <fieldset className="panel section">
      <legend>{section.title}</legend>
      {section.help && <p className="soft small section-help">{section.help}</p>}
      <div className="fields">
        {section.fields.map((field) => (
          <FieldInput
            key={field.path}
            field={field}
            answer={answers[field.path] ?? ""}
            standard={standard[field.path] ?? ""}
            error={errors[field.path]}
            onChange={(answer) => onChange(field.path, answer)}
          />
        ))}
      </div>
    </fieldset>
  );
}

/** Bring the first field that is wrong into sight and put the cursor there. */
function goToFirstError(): void {
  const wrong = document.querySelector<HTMLElement>("[aria-invalid=true]");
  wrong?.scrollIntoView({ block: "center" });
  wrong?.focus();
}

function useAnswers(sections: Section[], preset: Preset | undefined) {
  const standard = useMemo(() => answersOf(sections, preset?.config ?? {}), [sections, preset]);
  const [answers, setAnswers] = useState(standard);
  useEffect(() => setAnswers(standard), [standard]);
  const changed = Object.keys(standard).filter((path) => answers[path] !== standard[path]);
  return { standard, answers, setAnswers, changed };
}

export function LaunchForm({ schema, presets }: { schema: Parameters<typeof sectionsOf>[0]; presets: Preset[] }) {
  const navigate = useNavigate();
  const create = useCreateRun();
  const mayOperate = useMayOperate();
  const sections = useMemo(() => sectionsOf(schema), [schema]);
  const [presetName, setPresetName] = useState(presets[0]?.name ?? "");
  const preset = presets.find((each) => each.name === presetName);
  const { standard, answers, setAnswers, changed } = useAnswers(sections, preset);
  const [name, setName] = useState("");
  const [errors, setErrors] = useState<Record<string, string>>({});
  const [loose, setLoose] = useState<string[]>([]);

  const refuse = (placed: Record<string, string>, rest: string[] = []) => {
    setErrors(placed);
    setLoose(rest);
  };
  useEffect(() => {
    if (Object.keys(errors).length > 0) goToFirstError();
  }, [errors]);
  const onError = (problem: Error) => {
    if (!(problem instanceof ApiProblem)) return refuse({}, [problem.message]);
    if (problem.code === "run_exists") return refuse({ name: visible(problem.message) });
    const { placed, loose: rest } = placeErrors(sections, problem.fields);
    refuse(placed, problem.fields.length === 0 ? [problem.message] : rest);
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const { config, problems } = collect(sections, answers);
    if (!NAME.test(name)) problems.name = name ? NAME_HELP : "A name is needed.";
    refuse(problems);
    if (Object.keys(problems).length > 0) return;
    create.mutate(
      { name, preset: presetName, config, start: true },
      { onSuccess: (run) => void navigate({ to: "/runs/$name", params: { name: run.name } }), onError },
    );
  };
  const wrong = Object.keys(errors).length;
  return (
    <form onSubmit={submit} noValidate className="launch" aria-label="Launch a run">
      <div style={{ display: "grid", gap: "1.25rem" }}>
        <fieldset className="panel section">
          <legend>Run</legend>
          <div className="fields">
            <TextInput
              label="Name"
              description={NAME_HELP}
              data-field="name"
              data-autofocus
              value={name}
              error={errors.name}
              onChange={(event) => setName(event.currentTarget.value)}
            />
            <Select
              label="Preset"
              className="two-wide"
              description="Where the fields below start from."
              data={presets.map((each) => ({ value: each.name, label: each.title }))}
              value={presetName}
              allowDeselect={false}
              onChange={(value) => setPresetName(value ?? "")}
            />
          </div>
        </fieldset>
        {sections.map((section) => (
          <SectionPanel
            key={section.name}
            section={section}
            answers={answers}
            standard={standard}
            errors={errors}
            onChange={(path, answer) => setAnswers((old) => ({ ...old, [path]: answer }))}
          />
        ))}
      </div>
      <aside className="launch-aside panel section" aria-label="Launch">
        <h2 style={{ marginTop: 0 }}>Ready?</h2>
        <p className="small soft">
          Launching creates the run and starts its fleet. The fleet waits for a trainer to publish weights before it
          generates anything.
        </p>
        {changed.length > 0 && (
          <div className="small">
            <div className="faint">Changed from the preset</div>
            <ul className="changes">
              {changed.map((path) => (
                <li key={path}>
                  <span className="mono anywhere">{path}</span> <b className="anywhere">{String(answers[path])}</b>
                </li>
              ))}
            </ul>
          </div>
        )}
        {wrong > 0 && (
          <p className="small bad" role="alert">
            {wrong === 1 ? "One field needs" : `${wrong} fields need`} another look.
          </p>
        )}
        {loose.length > 0 && <ErrorState title="The run was not created" error={loose.join(" ")} />}
        <Group mt="md">
          <Button type="submit" fullWidth loading={create.isPending} disabled={!mayOperate}>
            Launch
          </Button>
        </Group>
        {!mayOperate && <p className="small faint">Viewers may look; launching takes an operator.</p>}
      </aside>
    </form>
  );
}

export function LaunchPage() {
  const { data, error, refetch } = useQuery(schemaQuery);
  return (
    <>
      <div className="page-title">
        <h1>Launch a run</h1>
      </div>
      {error && <ErrorState title="The form cannot be shown" error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Skeletons heights={[140, 220, 320]} />}
      {data && <LaunchForm schema={data.schema} presets={data.presets} />}
    </>
  );
}
