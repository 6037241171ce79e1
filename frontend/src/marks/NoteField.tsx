import { Button } from "@mantine/core";
import { useId, useState } from "react";
import { visible } from "@/format";
import { LONGEST_NOTE } from "@/marks/marks";
import styles from "@/marks/marks.module.css";

type Props = { note: string; isOpen: boolean; isBusy: boolean; onOpen: () => void; onClose: () => void; onSave: (note: string) => void };

function Writing({ note, isBusy, onClose, onSave }: Omit<Props, "isOpen" | "onOpen">) {
  const [text, setText] = useState(note);
  const id = useId();
  return (
    <form
      className={styles.writing}
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) onSave(text);
      }}
      onSubmit={(event) => {
        event.preventDefault();
        onSave(text);
      }}
    >
      <label htmlFor={id} className="unseen">
        Note
      </label>
      <textarea
        id={id}
        autoFocus
        rows={3}
        maxLength={LONGEST_NOTE}
        value={text}
        placeholder="Note on this group, visible to all users of the run"
        onChange={(event) => setText(event.currentTarget.value)}
      />
      <Button type="submit" size="compact-sm" loading={isBusy} disabled={text.trim() === note}>
        Save note
      </Button>
      <Button size="compact-sm" variant="subtle" onClick={onClose}>
        Cancel
      </Button>
      <span className="faint tiny wide-only">Ctrl Enter saves</span>
    </form>
  );
}

/** The note of a group, editable in place. */
export function NoteField({ isOpen, ...props }: Props) {
  if (isOpen) return <Writing {...props} />;
  if (!props.note) return null;
  return (
    <p className={styles.note}>
      {visible(props.note)}{" "}
      <button type="button" className="link-button tiny" onClick={props.onOpen}>
        Edit note
      </button>
    </p>
  );
}
