import { Button, Textarea } from "@mantine/core";
import { type Ref, useRef, useState } from "react";
import { useMark } from "@/api/marks";
import { useMayOperate } from "@/api/session";
import { Age } from "@/components/Age";
import { ErrorState } from "@/components/ErrorState";
import { visible } from "@/format";
import { LONGEST_NOTE, type Mark } from "@/marks/marks";
import styles from "@/marks/marks.module.css";
import { TagsField } from "@/marks/TagsField";
import { useShortcuts } from "@/shell/keyboard";

type Props = { run: string; group: number; mark: Mark | null };

/** Tags of a group as chips. */
export const Tags = ({ tags }: { tags: string[] }) =>
  tags.map((tag) => (
    <span key={tag} className={styles.tag}>
      {visible(tag)}
    </span>
  ));

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
export function MarkBar({ run, group, mark }: Props) {
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
