import { Alert, Box, Button, Group, Textarea } from "@mantine/core";
import { useSessionStorage } from "@mantine/hooks";
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, at, body } from "@/api/client";
import type { components } from "@/api/schema";
import { useMayOperate } from "@/api/session";
import type { RunEvent } from "@/api/types";
import { Age } from "@/components/inline";
import { onDemand } from "@/components/onDemand";
import { ErrorState, Panel } from "@/components/panels";
import { visible } from "@/format";
import { useChangeFeed } from "@/live/live";

type Notes = components["schemas"]["Notes"];
/** A text and the revision that it is based on. */
type Draft = { text: string; revision: number };

const Markdown = onDemand(() => import("@/components/Markdown"), "default");
const EVERY_MS = 2_000;
const LETTERS_AT_MOST = 20_000;

const notesQuery = (run: string) =>
  queryOptions({
    queryKey: ["notes", run],
    queryFn: (): Promise<Notes> => body(api.GET("/api/v1/runs/{run}/notes", at(run))),
    staleTime: 5_000,
  });

const nameOf = (author: string) => visible(author.replace(/^user:/, ""));

type EditorProps = { run: string; notes: Notes; draft: Draft; onDraft: (draft: Draft) => void; onClose: () => void };

/** The editor. A save over another edit is refused and shows the other text, which the next save replaces. */
function Editor({ run, notes, draft, onDraft, onClose }: EditorProps) {
  const queries = useQueryClient();
  const { queryKey } = notesQuery(run);
  const write = useMutation({
    mutationFn: (written: Draft): Promise<Notes> =>
      body(api.PUT("/api/v1/runs/{run}/notes", { ...at(run), body: { ...written, reason: "" } })),
    onSuccess: (saved) => {
      queries.setQueryData(queryKey, saved);
      onClose();
    },
    onError: () => queries.invalidateQueries({ queryKey }),
  });
  const isBehind = write.error !== null && notes.revision > draft.revision;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        write.mutate(isBehind ? { ...draft, revision: notes.revision } : draft);
      }}
    >
      {isBehind && (
        <Alert color="yellow" variant="light" title={`${nameOf(notes.author)} has saved another text`} mb="sm" data-conflict>
          <Box mah="12rem" tabIndex={0} role="group" aria-label="Their text" style={{ overflow: "auto", whiteSpace: "pre-wrap" }}>
            {visible(notes.text) || "The notes were cleared."}
          </Box>
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
        value={draft.text}
        onChange={(event) => onDraft({ ...draft, text: event.currentTarget.value })}
      />
      {write.error && !isBehind && <ErrorState title="Notes not saved" error={write.error} />}
      <Group mt="sm" gap="xs" justify="flex-end">
        <Button variant="default" onClick={onClose}>
          Discard
        </Button>
        <Button type="submit" loading={write.isPending} disabled={draft.text === notes.text}>
          Save notes
        </Button>
      </Group>
    </form>
  );
}

/** Notes of a run, with an editor whose text stays in this tab until it is saved or discarded. */
export default function NotesPanel({ run, events }: { run: string; events: RunEvent[] }) {
  const mayOperate = useMayOperate();
  // An event reports an edit.
  useChangeFeed(events.findLast(({ kind }) => kind === "notes_edited")?.id ?? 0, EVERY_MS, notesQuery(run).queryKey);
  const { data: notes, error } = useQuery(notesQuery(run));
  const [draft, setDraft, discard] = useSessionStorage<Draft | null>({
    key: `rolldeck-notes:${run}`,
    defaultValue: null,
    getInitialValueInEffect: false,
  });
  if (error && !notes) return <ErrorState title="Notes unavailable" error={error} />;
  if (!notes) return null;
  const isWriting = draft !== null && mayOperate;
  return (
    <Panel
      title="Notes"
      note={
        notes.at &&
        notes.text && (
          <>
            {nameOf(notes.author)}, <Age at={notes.at} suffix=" ago" />
          </>
        )
      }
      aside={
        !isWriting &&
        mayOperate && (
          <Button size="compact-sm" variant="default" onClick={() => setDraft({ text: notes.text, revision: notes.revision })}>
            {notes.text ? "Edit notes" : "Add notes"}
          </Button>
        )
      }
    >
      {isWriting ? (
        <Editor run={run} notes={notes} draft={draft} onDraft={setDraft} onClose={discard} />
      ) : notes.text ? (
        <Markdown text={notes.text} />
      ) : (
        <span className="small faint">No notes yet. Use notes for the purpose of the run, observations and next steps.</span>
      )}
    </Panel>
  );
}
