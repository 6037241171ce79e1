import { Button, TagsInput, Textarea } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { StickyNote } from "lucide-react";
import { type Ref, useRef, useState } from "react";
import { useMark } from "@/api/marks";
import { useMayOperate } from "@/api/session";
import { Age } from "@/components/inline";
import { ErrorState } from "@/components/panels";
import { visible } from "@/format";
import { LONGEST_NOTE, LONGEST_TAG, type Mark, MOST_TAGS } from "@/marks/marks";
import styles from "@/marks/marks.module.css";
import { valuesQuery } from "@/samples/samples";
import { useShortcuts } from "@/shell/keyboard";

/** Tags of a group as chips. */
const Tags = ({ tags }: { tags: string[] }) =>
  tags.map((tag) => (
    <span key={tag} className={styles.tag}>
      {visible(tag)}
    </span>
  ));

/** The tags of a group in a list, and whether it has a note. */
export const MarkCell = ({ mark: { tags, note } }: { mark: Mark }) => (
  <span className={`${styles.tags} ${styles.cell}`} title={visible([tags.join(", "), note].filter(Boolean).join(": "))}>
    <Tags tags={tags} />
    {note && <StickyNote size={14} role="img" aria-label="Noted" />}
  </span>
);

type FieldProps = {
  run: string;
  label: string;
  tags: string[];
  /** Resolves when the server has answered, also with an error. */
  onChange: (change: { add_tags: string[]; remove_tags: string[] }) => Promise<unknown>;
  inputRef?: Ref<HTMLInputElement>;
};

/** Tags as chips, with an input that completes the tags of the run. */
export function TagsField({ run, label, tags, onChange, inputRef }: FieldProps) {
  const [part, setPart] = useState("");
  // Shown until the server has answered all changes: further changes apply to the shown tags.
  const [draft, setDraft] = useState<string[] | null>(null);
  const pending = useRef(0);
  const [isUsed, setUsed] = useState(false);
  const known = useQuery({ ...valuesQuery({ run })("tag", part), enabled: isUsed }).data ?? [];
  const shown = draft ?? tags;
  const change = async (next: string[]) => {
    setDraft(next);
    pending.current += 1;
    await onChange({ add_tags: next.filter((tag) => !shown.includes(tag)), remove_tags: shown.filter((tag) => !next.includes(tag)) });
    pending.current -= 1;
    if (pending.current === 0) setDraft(null);
  };
  return (
    <TagsInput
      ref={inputRef}
      size="xs"
      aria-label={label}
      placeholder={shown.length === 0 ? "Add tags" : undefined}
      data={known.map(({ value }) => value)}
      maxTags={MOST_TAGS}
      maxLength={LONGEST_TAG}
      openOnFocus={false}
      value={shown}
      searchValue={part}
      onSearchChange={setPart}
      onFocus={() => setUsed(true)}
      onChange={(next) => void change(next)}
    />
  );
}

type NoteProps = { note: string; isBusy: boolean; onSave: (note: string) => void; fieldRef: Ref<HTMLTextAreaElement> };

function Note({ note, isBusy, onSave, fieldRef }: NoteProps) {
  const [text, setText] = useState(note);
  const isChanged = text.trim() !== note;
  return (
    <>
      <Textarea
        ref={fieldRef}
        size="xs"
        aria-label="Note"
        placeholder="Note, visible to all users of the run"
        autosize
        minRows={1}
        maxRows={8}
        maxLength={LONGEST_NOTE}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && isChanged) onSave(text);
        }}
      />
      {isChanged && (
        <Button size="compact-sm" loading={isBusy} onClick={() => onSave(text)} title="Ctrl Enter">
          Save note
        </Button>
      )}
    </>
  );
}

/** The tags and the note of a group, editable by users with the right to. */
export function MarkBar({ run, group, mark }: { run: string; group: number; mark: Mark | null }) {
  const mayOperate = useMayOperate();
  const marking = useMark(run);
  const tagsField = useRef<HTMLInputElement>(null);
  const noteField = useRef<HTMLTextAreaElement>(null);
  useShortcuts({ t: () => tagsField.current?.focus(), m: () => noteField.current?.focus() });
  const by = mark && (
    <p className="faint tiny">
      {visible(mark.changed_by)}, <Age at={mark.changed_at} suffix=" ago" />
    </p>
  );
  if (!mayOperate) {
    return (
      mark && (
        <div className={styles.editor}>
          <div className={styles.tags}>
            <Tags tags={mark.tags} />
          </div>
          {mark.note && <p className={styles.note}>{visible(mark.note)}</p>}
          {by}
        </div>
      )
    );
  }
  return (
    <div className={styles.editor}>
      <TagsField
        run={run}
        label="Tags"
        tags={mark?.tags ?? []}
        inputRef={tagsField}
        onChange={(change) => marking.mark({ groups: [group], ...change })}
      />
      <Note
        key={mark?.note}
        note={mark?.note ?? ""}
        isBusy={marking.isPending}
        fieldRef={noteField}
        onSave={(note) => marking.mutate({ groups: [group], note })}
      />
      {by}
      {marking.error && <ErrorState title="Change failed" error={marking.error} />}
    </div>
  );
}
