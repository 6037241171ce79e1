import { Button, Select, Switch, Textarea, TextInput } from "@mantine/core";
import type { ReactNode } from "react";
import type { Field } from "@/forms/fields";
import type { Answer } from "@/forms/rows";

export type ControlProps = {
  field: Field;
  /** Key of the field's errors, and target of links to it; the path by default. */
  at?: string;
  answer: Answer;
  /** The value that "reset" restores. */
  standard: Answer;
  /** The default as text. */
  given: string;
  error?: string;
  /** Id of a list of suggestions. */
  suggestions?: string;
  onChange: (answer: Answer) => void;
};

export function labelOf(field: Field): ReactNode {
  return (
    <>
      {field.title}
      {field.unit && <span className="faint"> · {field.unit}</span>}
    </>
  );
}

export function descriptionOf(field: Field, given: string): ReactNode {
  return (
    <>
      {field.help} {field.range && <span className="nowrap">{field.range}.</span>} {given && <span>{given}</span>}
    </>
  );
}

function Reset({ standard, onReset }: { standard: Answer; onReset: () => void }) {
  return (
    <Button variant="subtle" size="compact-xs" title={`Reset to ${String(standard) || "empty"}`} onClick={onReset}>
      reset
    </Button>
  );
}

/** The input of a field that holds one value. */
export function FieldControl({ field, at = field.path, answer, standard, given, error, suggestions, onChange }: ControlProps) {
  const common = { label: labelOf(field), description: descriptionOf(field, given), error, "data-field": at };
  if (field.kind === "switch") {
    return <Switch {...common} checked={answer === true} onChange={(event) => onChange(event.currentTarget.checked)} />;
  }
  if (field.kind === "choice") {
    return (
      <Select {...common} data={field.choices} value={String(answer)} allowDeselect={false} onChange={(value) => onChange(value ?? "")} />
    );
  }
  const text = String(answer);
  if (field.kind === "json" && (text.includes("\n") || String(standard).includes("\n"))) {
    return (
      <Textarea
        {...common}
        className="whole-row"
        classNames={{ input: "mono" }}
        autosize
        minRows={3}
        maxRows={18}
        spellCheck={false}
        value={text}
        onChange={(event) => onChange(event.currentTarget.value)}
      />
    );
  }
  const changed = answer !== standard;
  const numeric = field.kind === "integer" || field.kind === "number";
  return (
    <TextInput
      {...common}
      inputMode={numeric ? "decimal" : undefined}
      list={suggestions}
      value={text}
      placeholder={field.optional ? "empty" : undefined}
      onChange={(event) => onChange(event.currentTarget.value)}
      rightSectionWidth={changed ? 58 : undefined}
      rightSection={changed ? <Reset standard={standard} onReset={() => onChange(standard)} /> : null}
    />
  );
}
