import { Button, Input, SegmentedControl } from "@mantine/core";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { newRow } from "@/forms/answers";
import type { Field } from "@/forms/fields";
import { answerOfRows, duplicated, freeName, moved, type Row, renamed, rowsOf } from "@/forms/rows";
import { focusInside } from "@/pages/launch/focusing";
import { LessonRow } from "@/pages/launch/lessons/LessonRow";
import { LessonsJson } from "@/pages/launch/lessons/LessonsJson";
import css from "./lessons.module.css";

type Props = {
  field: Field;
  answer: string;
  standard: string;
  label: ReactNode;
  description: ReactNode;
  errors: Record<string, string>;
  /** Change the text; the errors at `key`, by default all of the field, are no longer current. */
  onChange: (answer: string, key?: string) => void;
};

/** The lessons: a row for each, and an editor of its other fields. */
export function LessonsInput({ field, answer, standard, label, description, errors, onChange }: Props) {
  const rows = rowsOf(answer);
  const [isJson, setJson] = useState(rows === null);
  const [open, setOpen] = useState<number | null>(null);
  const [said, setSaid] = useState("");
  const table = useRef<HTMLDivElement>(null);
  // Selectors of the element that has the focus after the next change of rows; the first that fits.
  const focused = useRef<string[]>([]);
  useEffect(() => {
    const found = focused.current.map((selector) => table.current?.querySelector<HTMLElement>(selector));
    focusInside(found.find((each) => each) ?? undefined);
    focused.current = [];
  });
  const put = (next: Row[], key?: string) => onChange(answerOfRows(next), key);
  const showsJson = isJson || rows === null;
  return (
    <Input.Wrapper
      className="whole-row"
      labelElement="div"
      label={label}
      description={description}
      error={errors[field.path]}
      data-field={field.path}
      role="group"
      aria-label={field.title}
      ref={table}
    >
      <div className={css.head}>
        <SegmentedControl
          size="xs"
          aria-label="View of the lessons"
          data={[
            { value: "table", label: "Table", disabled: rows === null },
            { value: "json", label: "JSON" },
          ]}
          value={showsJson ? "json" : "table"}
          onChange={(value) => setJson(value === "json")}
        />
        <span className="small faint">{rows && `${rows.length} ${rows.length === 1 ? "lesson" : "lessons"}, in this order`}</span>
      </div>
      {showsJson ? (
        <LessonsJson field={field} answer={answer} onChange={onChange} />
      ) : (
        <Lessons
          field={field}
          rows={rows ?? []}
          first={rowsOf(standard) ?? []}
          errors={errors}
          open={open}
          onOpen={setOpen}
          onChange={(next, { key, focus = [], open: opened, says = "" } = {}) => {
            focused.current = focus;
            if (opened !== undefined) setOpen(opened);
            setSaid(says);
            put(next, key);
          }}
        />
      )}
      <span className="unseen" role="status">
        {said}
      </span>
    </Input.Wrapper>
  );
}

type Done = { key?: string; focus?: string[]; open?: number | null; says?: string };
type LessonsProps = {
  field: Field;
  rows: Row[];
  /** The rows at the start of the form. */
  first: Row[];
  errors: Record<string, string>;
  open: number | null;
  onOpen: (at: number | null) => void;
  onChange: (rows: Row[], done?: Done) => void;
};

function Lessons({ field, rows, first, errors, open, onOpen, onChange }: LessonsProps) {
  const columns = field.columns ?? [];
  const shown = columns.filter(({ isEssential }) => isEssential);
  const add = () => {
    const row = newRow(field, freeName(rows, "lesson"));
    onChange([...rows, row], { focus: [`[data-lesson="${rows.length}"]`], open: rows.length, says: `${row.name} added.` });
  };
  const move = (at: number, by: -1 | 1) => {
    const to = at + by;
    const says = `${rows[at]?.name} is lesson ${to + 1} of ${rows.length}.`;
    const focus = [by, -by].map((each) => `[data-lesson="${to}"] [data-move="${each}"]:enabled`);
    onChange(moved(rows, at, by), { focus, says, open: open === at ? to : open === to ? at : open });
  };
  return (
    <>
      {rows.length > 0 && (
        <table className={css.lessons} aria-label="Lessons">
          <thead>
            <tr>
              <th scope="col">Name</th>
              {shown.map(({ path, title }) => (
                <th key={path} scope="col">
                  {title}
                </th>
              ))}
              <th scope="col">
                <span className="unseen">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row, at) => (
              <LessonRow
                key={at}
                table={field}
                rows={rows}
                at={at}
                first={first.find(({ name }) => name === row.name)}
                errors={errors}
                isOpen={open === at}
                onOpen={(isOpen) => onOpen(isOpen ? at : null)}
                onRename={(name) => onChange(renamed(rows, at, name), { key: `${field.path}[${at}].name` })}
                onChange={(answers, path) =>
                  onChange(
                    rows.map((each, other) => (other === at ? { ...each, answers } : each)),
                    { key: `${field.path}[${at}].${path}` },
                  )
                }
                onMove={(by) => move(at, by)}
                onDuplicate={() =>
                  onChange(duplicated(rows, at), {
                    focus: [`[data-lesson="${at + 1}"]`],
                    open: at + 1,
                    says: `${row.name} duplicated.`,
                  })
                }
                onDelete={() =>
                  onChange(
                    rows.filter((_, other) => other !== at),
                    { focus: ["[data-add]"], open: null, says: `${row.name} deleted.` },
                  )
                }
              />
            ))}
          </tbody>
        </table>
      )}
      <Button variant="default" size="xs" data-add onClick={add}>
        Add a lesson
      </Button>
    </>
  );
}
