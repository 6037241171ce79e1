import { Button, Group, Menu } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { useMayOperate } from "@/api/session";
import type { RunEvent } from "@/api/types";
import { Age } from "@/components/Age";
import { ErrorState } from "@/components/ErrorState";
import { onDemand } from "@/components/onDemand";
import { Panel } from "@/components/Panel";
import { hasDraft } from "@/components/useDraft";
import { counted, visible } from "@/format";
import { type Notes, noteQuery, notesQuery } from "@/pages/run/notes/api";
import { authorName } from "@/pages/run/notes/merging";
import { draftOf, NotesEditor } from "@/pages/run/notes/NotesEditor";
import css from "./notes.module.css";

const Markdown = onDemand(() => import("@/components/Markdown"), "default");

function Earlier({ notes, shown, onShow }: { notes: Notes; shown: number | null; onShow: (revision: number | null) => void }) {
  if (notes.earlier.length === 0) return null;
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button size="compact-sm" variant="default">
          History
        </Button>
      </Menu.Target>
      <Menu.Dropdown className={css.history}>
        <Menu.Item onClick={() => onShow(null)}>
          {shown === null ? "✓ " : ""}Current: revision {notes.revision}
        </Menu.Item>
        {notes.earlier.map(({ revision, author, at, letters }) => (
          <Menu.Item key={revision} onClick={() => onShow(revision)}>
            {shown === revision ? "✓ " : ""}Revision {revision} by {visible(authorName(author))}, <Age at={at} suffix=" ago" />
            <span className="faint"> · {counted(letters, "character")}</span>
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function Text({ run, notes, shown }: { run: string; notes: Notes; shown: number | null }) {
  const earlier = useQuery({ ...noteQuery(run, shown ?? 0), enabled: shown !== null });
  const text = shown === null ? notes.text : earlier.data?.text;
  if (earlier.error && !earlier.data) return <ErrorState title="Revision unavailable" error={earlier.error} />;
  return text === undefined ? null : <Markdown text={text} />;
}

/** Refetch when an event reports an edit. */
function useNotes(run: string, events: RunEvent[]) {
  const queries = useQueryClient();
  const edited = events.findLast(({ kind }) => kind === "notes_edited")?.id ?? 0;
  const seen = useRef(edited);
  useEffect(() => {
    if (edited === seen.current) return;
    seen.current = edited;
    void queries.invalidateQueries({ queryKey: notesQuery(run).queryKey, exact: true });
  }, [queries, run, edited]);
  return useQuery(notesQuery(run));
}

type Props = { run: string; events: RunEvent[] };

/** Notes of a run, with an editor and revision history. */
export default function NotesPanel({ run, events }: Props) {
  const mayOperate = useMayOperate();
  const { data: notes, error } = useNotes(run, events);
  const [isWriting, setWriting] = useState(() => hasDraft(draftOf(run)));
  const [shown, setShown] = useState<number | null>(null);
  const isEmpty = !notes || notes.text === "";
  if (error && !notes) return <ErrorState title="Notes unavailable" error={error} />;
  if (!notes) return null;
  return (
    <Panel
      title="Notes"
      note={
        notes.at &&
        !isEmpty && (
          <>
            {visible(authorName(notes.author))}, <Age at={notes.at} suffix=" ago" />
          </>
        )
      }
      aside={
        !isWriting && (
          <Group gap="xs">
            <Earlier notes={notes} shown={shown} onShow={setShown} />
            {mayOperate && (
              <Button size="compact-sm" variant="default" onClick={() => setWriting(true)}>
                {isEmpty ? "Add notes" : "Edit notes"}
              </Button>
            )}
          </Group>
        )
      }
    >
      {isWriting && mayOperate ? (
        <NotesEditor
          run={run}
          notes={notes}
          onClose={() => {
            setWriting(false);
            setShown(null);
          }}
        />
      ) : isEmpty && shown === null ? (
        <span className="small faint">No notes yet. Use notes for the purpose of the run, observations and next steps.</span>
      ) : (
        <>
          {shown !== null && (
            <p className={`small ${css.old}`} role="status">
              This is revision {shown}, since replaced.
            </p>
          )}
          <Text run={run} notes={notes} shown={shown} />
        </>
      )}
    </Panel>
  );
}
