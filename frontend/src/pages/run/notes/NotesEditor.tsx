import { Alert, Button, Group, SegmentedControl, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import { ApiProblem } from "@/api/problems";
import { ErrorState } from "@/components/ErrorState";
import { onDemand } from "@/components/onDemand";
import { deleteDraft, useDraft } from "@/components/useDraft";
import { visible } from "@/format";
import { type Notes, useWriteNotes } from "@/pages/run/notes/api";
import { authorName, both } from "@/pages/run/notes/merging";
import css from "./notes.module.css";

const Markdown = onDemand(() => import("@/components/Markdown"), "default");
const LETTERS_AT_MOST = 20_000;

/** Key of the draft in this tab. */
export const draftOf = (run: string) => `notes:${run}`;

type ConflictProps = { notes: Notes; onBoth: () => void; onMine: () => void };

/** Edit conflict: the other author's text and the options to resolve it. */
function Conflict({ notes, onBoth, onMine }: ConflictProps) {
  return (
    <Alert
      color="yellow"
      variant="light"
      title={`Conflict: ${visible(authorName(notes.author))} saved revision ${notes.revision}`}
      mb="sm"
      data-conflict
    >
      <pre className={`mono tiny ${css.theirs}`} tabIndex={0} role="group" aria-label="Their text">
        {visible(notes.text) || "They deleted the notes."}
      </pre>
      <p className="small">Your text is below; the history keeps all revisions.</p>
      <Group gap="xs">
        <Button size="compact-sm" variant="default" onClick={onBoth}>
          Insert theirs above mine
        </Button>
        <Button size="compact-sm" variant="default" onClick={onMine}>
          Keep mine
        </Button>
      </Group>
    </Alert>
  );
}

type Props = { run: string; notes: Notes; onClose: () => void };

/** Notes editor. The draft stays in this tab until saved or discarded. */
export function NotesEditor({ run, notes, onClose }: Props) {
  const draft = draftOf(run);
  const [kept, setText] = useDraft(draft);
  // The base revision of the edit; unaffected by later revisions, and kept across reloads.
  const [begun, setBegun] = useDraft(`${draft}:revision`);
  const [hasTyped, setTyped] = useState(kept !== "");
  const [view, setView] = useState("write");
  const [reason, setReason] = useState("");
  const write = useWriteNotes(run);
  const text = hasTyped ? kept : notes.text;
  const base = hasTyped ? Number(begun) : notes.revision;
  const type = (next: string, from = base) => {
    setTyped(true);
    setText(next);
    setBegun(String(from));
  };
  const done = () => {
    deleteDraft(draft);
    deleteDraft(`${draft}:revision`);
    onClose();
  };
  const isBehind = notes.revision > base;
  const refused = write.error && !(write.error instanceof ApiProblem && write.error.code === "notes_changed") ? write.error : null;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        write.mutate({ text, revision: base, reason }, { onSuccess: done });
      }}
    >
      {isBehind && (
        <Conflict notes={notes} onBoth={() => type(both(notes.text, text), notes.revision)} onMine={() => type(text, notes.revision)} />
      )}
      <SegmentedControl
        size="xs"
        mb="xs"
        aria-label="Editor mode"
        data={[
          { value: "write", label: "Write" },
          { value: "look", label: "Preview" },
        ]}
        value={view}
        onChange={setView}
      />
      {view === "write" ? (
        <Textarea
          aria-label="Notes"
          description="Markdown: **bold**, lists, tables, `code`, [links](https://…). HTML and images are not rendered."
          autosize
          minRows={5}
          maxRows={24}
          maxLength={LETTERS_AT_MOST}
          data-autofocus
          classNames={{ input: "mono" }}
          value={text}
          onChange={(event) => type(event.currentTarget.value)}
        />
      ) : (
        <div className={css.preview}>
          <Markdown text={text} />
        </div>
      )}
      {refused && <ErrorState title="Notes not saved" error={refused} />}
      <div className={css.foot}>
        <TextInput
          aria-label="Reason"
          placeholder="Reason, recorded in the run's history"
          maxLength={2000}
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
          className={css.reason}
        />
        <Button variant="default" onClick={done}>
          Discard
        </Button>
        <Button type="submit" loading={write.isPending} disabled={isBehind || text === notes.text}>
          Save notes
        </Button>
      </div>
    </form>
  );
}
