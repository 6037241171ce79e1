import { Button, Select, Switch, Textarea, TextInput } from "@mantine/core";
import { visible } from "@/format";
import type { Answers, Field, Section } from "@/forms/fields";
import { answersOf, defaultText } from "@/forms/fields";
import { ExtensionsInput } from "@/pages/launch/ExtensionsInput";

function label(field: Field) {
  return (
    <>
      {field.title}
      {field.unit && <span className="faint"> · {field.unit}</span>}
    </>
  );
}

function description(field: Field, given: string) {
  return (
    <>
      {field.help} {field.range && <span className="nowrap">{field.range}.</span>} {given && <span>{given}</span>}
    </>
  );
}

/** `standard` is the starting value, `given` its description with the default. */
type InputProps = {
  field: Field;
  answer: string | boolean;
  standard: string | boolean;
  given: string;
  error?: string;
  onChange: (answer: string | boolean) => void;
};

function FieldInput({ field, answer, standard, given, error, onChange }: InputProps) {
  const common = { label: label(field), description: description(field, given), error, "data-field": field.path };
  if (field.kind === "switch") {
    return <Switch {...common} checked={answer === true} onChange={(event) => onChange(event.currentTarget.checked)} />;
  }
  if (field.kind === "choice") {
    return (
      <Select {...common} data={field.choices} value={String(answer)} allowDeselect={false} onChange={(value) => onChange(value ?? "")} />
    );
  }
  const text = String(answer);
  if (field.kind === "extensions") {
    return (
      <ExtensionsInput
        field={field}
        answer={text}
        label={common.label}
        description={common.description}
        error={error}
        onChange={onChange}
      />
    );
  }
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
      value={text}
      placeholder={field.optional ? "empty" : undefined}
      onChange={(event) => onChange(event.currentTarget.value)}
      rightSectionWidth={changed ? 58 : undefined}
      rightSection={
        changed ? (
          <Button variant="subtle" size="compact-xs" title={`Reset to ${String(standard) || "empty"}`} onClick={() => onChange(standard)}>
            reset
          </Button>
        ) : null
      }
    />
  );
}

type SectionProps = {
  section: Section;
  answers: Answers;
  standard: Answers;
  from: string;
  errors: Record<string, string>;
  onChange: (path: string, answer: string | boolean) => void;
};

/** The fields of one object of the configuration. */
export function SectionPanel({ section, answers, standard, from, errors, onChange }: SectionProps) {
  const defaults = answersOf([section], {});
  return (
    <fieldset className="panel section" id={`section-${section.name || "rest"}`}>
      <legend>{section.title}</legend>
      {section.help && <p className="soft small section-help">{section.help}</p>}
      <div className="fields">
        {section.fields.map((field) => (
          <FieldInput
            key={field.path}
            field={field}
            answer={answers[field.path] ?? ""}
            standard={standard[field.path] ?? ""}
            given={defaultText(field, defaults[field.path] ?? "", standard[field.path] ?? "", visible(from))}
            error={errors[field.path]}
            onChange={(answer) => onChange(field.path, answer)}
          />
        ))}
      </div>
    </fieldset>
  );
}
