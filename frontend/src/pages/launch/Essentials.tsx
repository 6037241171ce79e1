import { Select, SimpleGrid, Switch, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Panel } from "@/components/panels";
import { environmentNamesQuery } from "@/forms/api";
import { type Field, textOf, valueOfText } from "@/forms/fields";
import { valueAt } from "@/forms/schema";
import type { LaunchState } from "@/forms/useLaunch";
import { withValue } from "@/forms/yaml";

/** Id of the names of the registered environments of steps. */
const ENVIRONMENTS = "environments-of-steps";

/** The input of an essential field; it changes the YAML. */
function EssentialInput({ field, state }: { field: Field; state: LaunchState }) {
  const { path, kind, title, unit, help, range, choices } = field;
  const value = valueAt(state.config, path);
  // While focused, the typed text stays as it is: "1." is the number 1. A change of the YAML replaces it.
  const [typed, setTyped] = useState<string | null>(null);
  const isTyped = typed !== null && JSON.stringify(valueOfText(field, typed)) === JSON.stringify(value);
  const change = (next: unknown) => state.setText((text) => withValue(text, path, next));
  const wrong = state.errors.filter((each) => each.field === path || each.field.startsWith(`${path}[`));
  const common = {
    label: unit ? `${title} · ${unit}` : title,
    description: [help, range && `${range}.`].filter(Boolean).join(" "),
    error: wrong.map(({ message }) => message).join(" ") || undefined,
    disabled: state.isReadOnly,
    "data-field": path,
  };
  if (kind === "switch") return <Switch {...common} checked={value === true} onChange={(event) => change(event.currentTarget.checked)} />;
  if (kind === "choice") {
    return (
      <Select
        {...common}
        data={[...new Set([...choices, textOf(field, value)])].filter(Boolean)}
        value={textOf(field, value)}
        allowDeselect={false}
        onChange={change}
      />
    );
  }
  return (
    <TextInput
      {...common}
      inputMode={kind === "number" ? "decimal" : undefined}
      list={path === "environment.spec" ? ENVIRONMENTS : undefined}
      autoComplete="off"
      value={isTyped ? typed : textOf(field, value)}
      placeholder={field.isNullable ? "empty" : undefined}
      onChange={(event) => {
        setTyped(event.currentTarget.value);
        change(valueOfText(field, event.currentTarget.value));
      }}
      onBlur={() => setTyped(null)}
    />
  );
}

/** The run's name, with a free one suggested; a suggestion that arrives while the input has the focus waits until it leaves. */
function NameInput({ state }: { state: LaunchState }) {
  const [focused, setFocused] = useState<string | null>(null);
  return (
    <TextInput
      label="Name"
      description="Letters, digits, - and _; part of the run's URL."
      data-field="name"
      autoComplete="off"
      value={focused ?? state.name}
      error={state.nameErrors.map(({ message }) => message).join(" ") || undefined}
      onFocus={() => setFocused(state.name)}
      onBlur={() => setFocused(null)}
      onChange={(event) => {
        setFocused(event.currentTarget.value);
        state.setName(event.currentTarget.value);
      }}
    />
  );
}

/** The run's name and the fields that most launches change. */
export function Essentials({ fields, state }: { fields: Field[]; state: LaunchState }) {
  const environments = useQuery(environmentNamesQuery("steps")).data ?? [];
  return (
    <Panel title="Essentials">
      <SimpleGrid cols={{ base: 1, xs: 2, lg: 3 }}>
        <NameInput state={state} />
        {fields.map((field) => (
          <EssentialInput key={field.path} field={field} state={state} />
        ))}
      </SimpleGrid>
      <datalist id={ENVIRONMENTS}>
        {environments.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </Panel>
  );
}
