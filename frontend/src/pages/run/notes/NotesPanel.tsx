import { Alert, Button, Group, Textarea } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { useMayOperate } from "@/api/session";
import type { RunEvent } from "@/api/types";
import { Age } from "@/components/Age";
import { ErrorState } from "@/components/ErrorState";
import { onDemand } from "@/components/onDemand";
import { Panel } from "@/components/Panel";
import { deleteDraft, hasDraft, useDraft } from "@/components/useDraft";
import { visible } from "@/format";
import { type Notes, notesQuery, useWriteNotes } from "@/pages/run/notes/api";
import css from "./notes.module.css";

const Markdown = onDemand(() => import("@/components/Markdown"), "default");
const LETTERS_AT_MOST = 20_000;

const draftOf = (run: string) => `notes:${run}`;
const nameOf = (author: string) => visible(author.replace(/^user:/, ""));

/** The editor. Its text stays in this tab until it is saved or discarded. */
function Editor({ run, notes, onClose }: { run: string; notes: Notes; onClose: () => void }) {
  const draft = draftOf(run);
  const [kept, setText] = useDraft(draft);
  // The revision that the text is based on, also after a reload.
  const [begun, setBegun] = useDraft(`${draft}:revision`);
  const [hasTyped, setTyped] = useState(kept !== "");
  const write = useWriteNotes(run);
  const text = hasTyped ? kept : notes.text;
  const base = hasTyped ? Number(begun) : notes.revision;
  // A refused save fetches the newer text, which the next save replaces.
  const isBehind = write.error !== null && notes.revision > base;
  const done = () => {
    deleteDraft(draft);
    deleteDraft(`${draft}:revision`);
    onClose();
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        write.mutate({ text, revision: isBehind ? notes.revision : base, reason: "" }, { onSuccess: done });
      }}
    >
      {isBehind && (
        <Alert color="yellow" variant="light" title={`${nameOf(notes.author)} has saved another text`} mb="sm" data-conflict>
          <pre className={`mono tiny ${css.theirs}`} tabIndex={0} role="group" aria-label="Their text">
            {visible(notes.text) || "The notes were cleared."}
          </pre>
          Saving replaces it with the text below.
        </Alert>
      )}
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
        onChange={(event) => {
          if (!hasTyped) setBegun(String(base));
          setTyped(true);
          setText(event.currentTarget.value);
        }}
      />
      {write.error && !isBehind && <ErrorState title="Notes not saved" error={write.error} />}
      <Group mt="sm" gap="xs" justify="flex-end">
        <Button variant="default" onClick={done}>
          Discard
        </Button>
        <Button type="submit" loading={write.isPending} disabled={text === notes.text}>
          Save notes
        </Button>
      </Group>
    </form>
  );
}

/** The notes, fetched again when an event reports an edit. */
function useNotes(run: string, events: RunEvent[]) {
  const queries = useQueryClient();
  const edited = events.findLast(({ kind }) => kind === "notes_edited")?.id ?? 0;
  const seen = useRef(edited);
  useEffect(() => {
    if (edited === seen.current) return;
    seen.current = edited;
    void queries.invalidateQueries({ queryKey: notesQuery(run).queryKey });
  }, [queries, run, edited]);
  return useQuery(notesQuery(run));
}

/** Notes of a run, with an editor. */
export default function NotesPanel({ run, events }: { run: string; events: RunEvent[] }) {
  const mayOperate = useMayOperate();
  const { data: notes, error } = useNotes(run, events);
  const [isWriting, setWriting] = useState(() => hasDraft(draftOf(run)));
  if (error && !notes) return <ErrorState title="Notes unavailable" error={error} />;
  if (!notes) return null;
  const isEmpty = notes.text === "";
  return (
    <Panel
      title="Notes"
      note={
        notes.at &&
        !isEmpty && (
          <>
            {nameOf(notes.author)}, <Age at={notes.at} suffix=" ago" />
          </>
        )
      }
      aside={
        !isWriting &&
        mayOperate && (
          <Button size="compact-sm" variant="default" onClick={() => setWriting(true)}>
            {isEmpty ? "Add notes" : "Edit notes"}
          </Button>
        )
      }
    >
      {isWriting && mayOperate ? (
        <Editor run={run} notes={notes} onClose={() => setWriting(false)} />
      ) : isEmpty ? (
        <span className="small faint">No notes yet. Use notes for the purpose of the run, observations and next steps.</span>
      ) : (
        <Markdown text={notes.text} />
      )}
    </Panel>
  );
}
