import { ActionIcon, TextInput } from "@mantine/core";
import { ArrowDown, ArrowUp, ChevronDown, ChevronRight, Copy, Trash2 } from "lucide-react";
import { type ReactNode, useState } from "react";
import { visible } from "@/format";
import { defaultText, newRow } from "@/forms/answers";
import { errorAt } from "@/forms/errors";
import type { Field } from "@/forms/fields";
import { type Answer, type Answers, type Row, requirementsOf } from "@/forms/rows";
import { TOKEN_ENVIRONMENTS } from "@/pages/launch/EnvironmentNames";
import { FieldControl } from "@/pages/launch/FieldControl";
import { RequiresInput } from "@/pages/launch/lessons/RequiresInput";
import css from "./lessons.module.css";

type Props = {
  table: Field;
  rows: Row[];
  at: number;
  /** The row with this name at the start of the form. */
  first: Row | undefined;
  errors: Record<string, string>;
  isOpen: boolean;
  onOpen: (isOpen: boolean) => void;
  onRename: (name: string) => void;
  /** Change the row's fields; the errors at `path` in the row are no longer current. */
  onChange: (answers: Answers, path: string) => void;
  onMove: (by: -1 | 1) => void;
  onDuplicate: () => void;
  onDelete: () => void;
};

/** The name of a row; other lessons that require it follow when the text is complete. */
function NameInput({
  row,
  at,
  field,
  error,
  onRename,
}: {
  row: Row;
  at: number;
  field: string;
  error?: string;
  onRename: (name: string) => void;
}) {
  const [typed, setTyped] = useState<string | null>(null);
  const commit = () => {
    if (typed !== null && typed !== row.name) onRename(typed);
    setTyped(null);
  };
  return (
    <TextInput
      size="xs"
      aria-label={`Name of lesson ${at + 1}`}
      data-field={field}
      autoComplete="off"
      spellCheck={false}
      value={typed ?? row.name}
      error={error}
      onChange={(event) => setTyped(event.currentTarget.value)}
      onBlur={commit}
      onKeyDown={(event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        commit();
      }}
    />
  );
}

function requirementsText(row: Row): string {
  const texts = requirementsOf(row).map(({ lesson, success }) => `${lesson || "?"} ≥ ${success}`);
  return texts.join(", ") || "none";
}

type ActionProps = { label: string; isDisabled?: boolean; move?: -1 | 1; onClick: () => void; children: ReactNode };

function Action({ label, isDisabled = false, move, onClick, children }: ActionProps) {
  return (
    <ActionIcon
      variant="subtle"
      color="gray"
      size={26}
      aria-label={label}
      title={label}
      disabled={isDisabled}
      data-move={move}
      onClick={onClick}
    >
      {children}
    </ActionIcon>
  );
}

/** An essential field of a row. */
function Cell({ column, at, row, name, error, isOpen, onOpen, onChange }: CellProps) {
  if (column.kind === "list") {
    const text = visible(requirementsText(row));
    return (
      <button
        type="button"
        className={`link-button tiny anywhere ${css.requires}`}
        aria-label={`${column.title} of ${name}: ${text}`}
        aria-expanded={isOpen}
        onClick={onOpen}
      >
        {text}
      </button>
    );
  }
  const isNumber = column.kind === "integer" || column.kind === "number";
  return (
    <TextInput
      size="xs"
      aria-label={`${column.title} of ${name}`}
      data-field={at}
      classNames={{ input: column.kind === "json" ? "mono" : undefined }}
      inputMode={isNumber ? "decimal" : undefined}
      list={column.path === "spec" ? TOKEN_ENVIRONMENTS : undefined}
      spellCheck={false}
      value={String(row.answers[column.path] ?? "")}
      error={error}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}

type CellProps = {
  column: Field;
  /** Key of the field's errors. */
  at: string;
  row: Row;
  name: string;
  error?: string;
  isOpen: boolean;
  onOpen: () => void;
  onChange: (answer: Answer) => void;
};

function Actions({ name, isOpen, editor, ...props }: Props & { name: string; editor: string }) {
  const { at, rows, onMove } = props;
  return (
    <td className={css.actions}>
      <ActionIcon
        variant="subtle"
        color="gray"
        size={26}
        aria-label={`More fields of ${name}`}
        title={`More fields of ${name}`}
        aria-expanded={isOpen}
        aria-controls={isOpen ? editor : undefined}
        onClick={() => props.onOpen(!isOpen)}
      >
        {isOpen ? <ChevronDown size={16} aria-hidden /> : <ChevronRight size={16} aria-hidden />}
      </ActionIcon>
      <Action label={`Move ${name} up`} isDisabled={at === 0} move={-1} onClick={() => onMove(-1)}>
        <ArrowUp size={15} aria-hidden />
      </Action>
      <Action label={`Move ${name} down`} isDisabled={at === rows.length - 1} move={1} onClick={() => onMove(1)}>
        <ArrowDown size={15} aria-hidden />
      </Action>
      <Action label={`Duplicate ${name}`} onClick={props.onDuplicate}>
        <Copy size={14} aria-hidden />
      </Action>
      <Action label={`Delete ${name}`} onClick={props.onDelete}>
        <Trash2 size={15} aria-hidden />
      </Action>
    </td>
  );
}

type EditorProps = Pick<Props, "table" | "rows" | "at" | "first" | "errors"> & {
  columns: Field[];
  onChange: (path: string, answer: Answer) => void;
};

/** The fields of a lesson that have no cell, and its requirements. */
function EditorFields({ table, rows, at, first, errors, columns, onChange }: EditorProps) {
  const answers = rows[at]?.answers ?? {};
  const defaults = newRow(table, "").answers;
  const standards = first?.answers ?? defaults;
  const key = `${table.path}[${at}]`;
  return columns.map((column) => {
    const { path } = column;
    if (column.kind === "list") {
      return (
        <RequiresInput
          key={path}
          field={column}
          at={`${key}.${path}`}
          answer={String(answers[path] ?? "")}
          lessons={rows.filter((_, other) => other !== at).map(({ name }) => name)}
          errors={errors}
          onChange={(answer) => onChange(path, answer)}
        />
      );
    }
    const given = defaultText(column, defaults[path] ?? "", defaults[path] ?? "", { name: "", isPreset: true });
    return (
      <FieldControl
        key={path}
        field={column}
        at={`${key}.${path}`}
        answer={answers[path] ?? ""}
        standard={standards[path] ?? ""}
        given={given}
        error={errorAt(errors, `${key}.${path}`)}
        onChange={(answer) => onChange(path, answer)}
      />
    );
  });
}

/** A lesson: its essential fields in a row, the others in an editor below. */
export function LessonRow(props: Props) {
  const { table, rows, at, first, errors, onChange, onOpen } = props;
  const row = rows[at] as Row;
  const columns = table.columns ?? [];
  const key = `${table.path}[${at}]`;
  const name = visible(row.name || `lesson ${at + 1}`);
  const cells = columns.filter(({ isEssential }) => isEssential);
  const rest = columns.filter(({ isEssential, kind }) => !isEssential || kind === "list");
  const isOpen = props.isOpen || rest.some(({ path }) => errorAt(errors, `${key}.${path}`) !== undefined);
  const editor = `lesson-${at}`;
  const change = (path: string, answer: Answer) => onChange({ ...row.answers, [path]: answer }, path);
  return (
    <>
      <tr data-lesson={at}>
        <td data-label="Name">
          <NameInput row={row} at={at} field={`${key}.name`} error={errors[`${key}.name`]} onRename={props.onRename} />
        </td>
        {cells.map((column) => (
          <td key={column.path} data-label={column.title}>
            <Cell
              column={column}
              at={`${key}.${column.path}`}
              row={row}
              name={name}
              error={errorAt(errors, `${key}.${column.path}`)}
              isOpen={isOpen}
              onOpen={() => onOpen(true)}
              onChange={(answer) => change(column.path, answer)}
            />
          </td>
        ))}
        <Actions {...props} name={name} isOpen={isOpen} editor={editor} />
      </tr>
      {isOpen && (
        <tr className={css.editor}>
          <td colSpan={cells.length + 2}>
            <div id={editor} role="group" aria-label={`Lesson ${name}`} className="fields">
              <EditorFields table={table} rows={rows} at={at} first={first} errors={errors} columns={rest} onChange={change} />
            </div>
          </td>
        </tr>
      )}
    </>
  );
}
