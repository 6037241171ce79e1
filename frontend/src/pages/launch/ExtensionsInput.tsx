import { Button, Input, Select, TextInput } from "@mantine/core";
import type { ReactNode } from "react";
import { answerOfRows, type ExtensionRow, rowsOf } from "@/forms/extensions";
import type { Field } from "@/forms/fields";

type ExtensionsProps = {
  field: Field;
  answer: string;
  label: ReactNode;
  description: ReactNode;
  error?: string;
  onChange: (answer: string) => void;
};

/** A list of registered names, each with its arguments. */
export function ExtensionsInput({ field, answer, label, description, error, onChange }: ExtensionsProps) {
  const rows = rowsOf(answer) ?? [];
  const change = (at: number, row: Partial<ExtensionRow>) =>
    onChange(answerOfRows(rows.map((each, other) => (other === at ? { ...each, ...row } : each))));
  const isFull = rows.length >= (field.schema.maxItems ?? Infinity);
  return (
    <Input.Wrapper
      className="whole-row"
      labelElement="div"
      label={label}
      description={description}
      error={error}
      data-field={field.path}
      role="group"
      aria-label={field.title}
    >
      {rows.map((row, at) => (
        <div key={at} className="extension-row">
          <Select
            aria-label={`${field.title} ${at + 1}`}
            data={[...new Set([...field.choices, row.kind].filter(Boolean))]}
            value={row.kind || null}
            placeholder="Choose a name"
            allowDeselect={false}
            error={Boolean(error) && row.kind === ""}
            onChange={(kind) => change(at, { kind: kind ?? "" })}
          />
          <TextInput
            aria-label={`Arguments of ${field.title.toLowerCase()} ${at + 1}`}
            classNames={{ input: "mono" }}
            placeholder="{}"
            spellCheck={false}
            value={row.kwargs}
            error={Boolean(error)}
            onChange={(event) => change(at, { kwargs: event.currentTarget.value })}
          />
          <Button
            variant="subtle"
            aria-label={`Remove ${field.title.toLowerCase()} ${at + 1}`}
            onClick={() => onChange(answerOfRows(rows.filter((_, other) => other !== at)))}
          >
            Remove
          </Button>
        </div>
      ))}
      {field.choices.length > 0 ? (
        <Button
          variant="default"
          size="xs"
          disabled={isFull}
          aria-label={`Add to ${field.title.toLowerCase()}`}
          onClick={() => onChange(answerOfRows([...rows, { kind: "", kwargs: "" }]))}
        >
          Add
        </Button>
      ) : (
        <p className="small faint extension-none">None are registered on this server.</p>
      )}
    </Input.Wrapper>
  );
}
