import { Alert, Button, Group, SegmentedControl, Textarea, TextInput } from "@mantine/core";
import { lazy, Suspense, useState } from "react";
import { type Notes, useWriteNotes } from "@/api/notes";
import { ApiProblem } from "@/api/problems";
import { ErrorState } from "@/components/ErrorState";
import { forgetDraft, useDraft } from "@/components/useDraft";
import { visible } from "@/format";
import { authorName, both } from "@/pages/run/notes/merging";
import css from "./notes.module.css";

const Markdown = lazy(() => import("@/pages/run/notes/Markdown"));
const LETTERS_AT_MOST = 20_000;

/** Under what an unfinished text is kept in this tab. */
export const draftOf = (run: string) => `notes:${run}`;

type ConflictProps = { notes: Notes; onBoth: () => void; onMine: () => void };

/** Somebody else wrote meanwhile: what they wrote, and what becomes of it. */
function Conflict({ notes, onBoth, onMine }: ConflictProps) {
  return (
    <Alert
      color="yellow"
      variant="light"
      title={`${visible(authorName(notes.author))} wrote revision ${notes.revision} meanwhile`}
      mb="sm"
      data-conflict
    >
      <pre className={`mono tiny ${css.theirs}`} tabIndex={0} role="group" aria-label="What they wrote">
        {visible(notes.text) || "They took the notes away."}
      </pre>
      <p className="small">Yours is still below, and every revision stays in the history.</p>
      <Group gap="xs">
        <Button size="compact-sm" variant="default" onClick={onBoth}>
          Put theirs above mine
        </Button>
        <Button size="compact-sm" variant="default" onClick={onMine}>
          Keep mine instead
        </Button>
      </Group>
    </Alert>
  );
}

type Props = { run: string; notes: Notes; onClose: () => void };

/** The notes as a text to write in. What is written stays in this tab until it is saved or given up. */
export function NotesEditor({ run, notes, onClose }: Props) {
  const draft = draftOf(run);
  const [kept, setText] = useDraft(draft);
  // What is written begins at this revision, whatever comes meanwhile, and after a reload too.
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
    forgetDraft(draft);
    forgetDraft(`${draft}:revision`);
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
        aria-label="Write or look"
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
          description="Markdown: **bold**, lists, tables, `code`, [links](https://…). HTML and pictures are not shown."
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
          <Suspense>
            <Markdown text={text} />
          </Suspense>
        </div>
      )}
      {refused && <ErrorState title="The notes stay as they are" error={refused} />}
      <div className={css.foot}>
        <TextInput
          aria-label="Reason"
          placeholder="Reason, for the run's history"
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
