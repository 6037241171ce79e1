import { visible } from "@/format";
import { defaultText, type Origin } from "@/forms/answers";
import { errorAt } from "@/forms/errors";
import type { Field } from "@/forms/fields";
import { STEP_ENVIRONMENTS } from "@/pages/launch/EnvironmentNames";
import { ExtensionsInput } from "@/pages/launch/ExtensionsInput";
import { descriptionOf, FieldControl, labelOf } from "@/pages/launch/FieldControl";
import { LessonsInput } from "@/pages/launch/lessons/LessonsInput";
import type { LaunchState } from "@/pages/launch/useLaunch";

/** Suggestions of fields that name registered objects. */
const SUGGESTIONS: Record<string, string> = { "environment.spec": STEP_ENVIRONMENTS };

/** The input of any field of the configuration. */
function FieldInput({ field, state, origin }: { field: Field; state: LaunchState; origin: Origin }) {
  const { path } = field;
  const answer = state.answers[path] ?? "";
  const standard = state.standard[path] ?? "";
  const given = defaultText(field, state.defaults[path] ?? "", standard, { ...origin, name: visible(origin.name) });
  const error = errorAt(state.errors.fields, path);
  const text = { label: labelOf(field), description: descriptionOf(field, given) };
  if (field.kind === "extensions") {
    return <ExtensionsInput field={field} answer={String(answer)} {...text} error={error} onChange={(next) => state.change(path, next)} />;
  }
  if (field.kind === "table") {
    return (
      <LessonsInput
        field={field}
        answer={String(answer)}
        standard={String(standard)}
        {...text}
        errors={state.errors.fields}
        onChange={(next, key) => state.change(path, next, key)}
      />
    );
  }
  return (
    <FieldControl
      field={field}
      answer={answer}
      standard={standard}
      given={given}
      error={error}
      suggestions={SUGGESTIONS[path]}
      onChange={(next) => state.change(path, next)}
    />
  );
}

type FieldsProps = { fields: Field[]; state: LaunchState; origin: Origin };

/** The inputs of some fields. */
export function FieldInputs({ fields, state, origin }: FieldsProps) {
  return fields.map((field) => <FieldInput key={field.path} field={field} state={state} origin={origin} />);
}
