import { Button, Input, Select, TextInput } from "@mantine/core";
import { newRow } from "@/forms/answers";
import { errorAt } from "@/forms/errors";
import type { Field } from "@/forms/fields";
import { type Answers, answerOfRows, rowsOf } from "@/forms/rows";
import css from "./lessons.module.css";

type Props = {
  field: Field;
  /** Key of the field's errors. */
  at: string;
  answer: string;
  /** The names of the other lessons. */
  lessons: string[];
  errors: Record<string, string>;
  onChange: (answer: string) => void;
};

/** The lessons that must succeed first, with the minimum success of each. */
export function RequiresInput({ field, at: key, answer, lessons, errors, onChange }: Props) {
  const rows = rowsOf(answer) ?? [];
  const change = (at: number, answers: Answers) =>
    onChange(answerOfRows(rows.map((row, other) => (other === at ? { ...row, answers: { ...row.answers, ...answers } } : row))));
  const isFull = rows.length >= (field.schema.maxItems ?? Infinity);
  return (
    <Input.Wrapper
      className="whole-row"
      labelElement="div"
      label={field.title}
      description={field.help}
      error={errors[key]}
      data-field={key}
      role="group"
      aria-label={field.title}
    >
      {rows.map(({ answers }, at) => (
        <div key={at} className={css.requirement}>
          <Select
            aria-label={`Required lesson ${at + 1}`}
            data-field={`${key}[${at}].lesson`}
            data={[...new Set([...lessons, String(answers.lesson)].filter(Boolean))]}
            value={String(answers.lesson) || null}
            placeholder="Choose a lesson"
            allowDeselect={false}
            error={errorAt(errors, `${key}[${at}].lesson`)}
            onChange={(lesson) => change(at, { lesson: lesson ?? "" })}
          />
          <TextInput
            aria-label={`Minimum success of required lesson ${at + 1}`}
            data-field={`${key}[${at}].min_success`}
            inputMode="decimal"
            value={String(answers.min_success ?? "")}
            error={errorAt(errors, `${key}[${at}].min_success`)}
            onChange={(event) => change(at, { min_success: event.currentTarget.value })}
          />
          <Button
            variant="subtle"
            aria-label={`Remove required lesson ${at + 1}`}
            onClick={() => onChange(answerOfRows(rows.filter((_, other) => other !== at)))}
          >
            Remove
          </Button>
        </div>
      ))}
      {lessons.length > 0 ? (
        <Button
          variant="default"
          size="xs"
          disabled={isFull}
          aria-label="Add a required lesson"
          onClick={() => onChange(answerOfRows([...rows, newRow(field, "")]))}
        >
          Add
        </Button>
      ) : (
        <p className="small faint">No other lessons.</p>
      )}
    </Input.Wrapper>
  );
}
