import { Badge, Button, Group, Space, Stack, TagsInput, Text, Textarea } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { StickyNote, Trash2 } from "lucide-react";
import { type Ref, useRef, useState } from "react";
import { useMark } from "@/api/marks";
import { useMayOperate } from "@/api/session";
import { Age } from "@/components/inline";
import { ErrorState } from "@/components/panels";
import { number, visible } from "@/format";
import { DiscardDialog } from "@/marks/DiscardDialog";
import { isInQueue, LONGEST_NOTE, LONGEST_TAG, type Mark, MOST_AT_ONCE, MOST_TAGS, tagsOfAll } from "@/marks/marks";
import { valuesQuery } from "@/samples/samples";
import { useShortcuts } from "@/shell/keyboard";

const Tags = ({ tags }: { tags: string[] }) =>
  tags.map((tag) => (
    <Badge component="bdi" key={tag} maw="9rem">
      {visible(tag)}
    </Badge>
  ));

/** The tags of a group in a list, and whether it has a note. */
export const MarkCell = ({ mark: { tags, note } }: { mark: Mark }) => (
  <span title={visible([tags.join(", "), note].filter(Boolean).join(": "))}>
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
function TagsField({ run, label, tags, onChange, inputRef }: FieldProps) {
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

/** The tags and the note of a group, editable by users with the right to. */
export function MarkBar({ run, group, mark }: { run: string; group: number; mark: Mark | null }) {
  const mayOperate = useMayOperate();
  const marking = useMark(run);
  const tagsField = useRef<HTMLInputElement>(null);
  const note = mark?.note ?? "";
  const [draft, setDraft] = useState<string | null>(null);
  const text = draft ?? note;
  const isChanged = text.trim() !== note;
  const save = () => marking.mutate({ groups: [group], note: text }, { onSuccess: () => setDraft(null) });
  useShortcuts({ t: () => tagsField.current?.focus() });
  if (!mayOperate && !mark) return null;
  return (
    <Stack gap="xs">
      {mayOperate ? (
        <TagsField
          run={run}
          label="Tags"
          tags={mark?.tags ?? []}
          inputRef={tagsField}
          onChange={(change) => marking.mark({ groups: [group], ...change })}
        />
      ) : (
        <div>
          <Tags tags={mark?.tags ?? []} />
        </div>
      )}
      {(mayOperate || note) && (
        <Textarea
          size="xs"
          aria-label="Note"
          placeholder="Note, visible to all users of the run"
          autosize
          maxRows={8}
          maxLength={LONGEST_NOTE}
          readOnly={!mayOperate}
          value={mayOperate ? text : visible(note)}
          onChange={(event) => setDraft(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && isChanged) save();
          }}
        />
      )}
      {isChanged && (
        <Button size="compact-sm" loading={marking.isPending} onClick={save} title="Ctrl Enter">
          Save note
        </Button>
      )}
      {mark && (
        <Text className="faint tiny">
          {visible(mark.changed_by)}, <Age at={mark.changed_at} suffix=" ago" />
        </Text>
      )}
      {marking.error && <ErrorState title="Change failed" error={marking.error} />}
    </Stack>
  );
}

type SelectionProps = { run: string; groups: { id: number; mark: Mark | null; state: string }[]; onClear: () => void };

/** Tags of the selected groups, and the removal of the waiting ones from the queue. */
export function SelectionBar({ run, groups, onClear }: SelectionProps) {
  const [isDiscarding, setDiscarding] = useState(false);
  const marking = useMark(run);
  const ids = groups.map(({ id }) => id);
  const waiting = groups.filter(isInQueue).map(({ id }) => id);
  const areTooMany = ids.length > MOST_AT_ONCE;
  return (
    <Group gap="xs" px="sm" py="xs" role="group" aria-label="Selected groups">
      <b role="status">{number(ids.length)} selected</b>
      {areTooMany ? (
        <span className="held small">At most {MOST_AT_ONCE} can be tagged or discarded at once.</span>
      ) : (
        <TagsField
          run={run}
          label="Tags of all selected groups"
          tags={tagsOfAll(groups)}
          onChange={(change) => marking.mark({ groups: ids, ...change })}
        />
      )}
      {!areTooMany && waiting.length > 0 && (
        <Button
          size="compact-sm"
          variant="default"
          title={`Removes the waiting ones of the selection from the queue: ${number(waiting.length)}`}
          leftSection={<Trash2 size={14} />}
          onClick={() => setDiscarding(true)}
        >
          Discard…
        </Button>
      )}
      <Space flex={1} />
      <Button size="compact-sm" variant="subtle" onClick={onClear}>
        Clear selection
      </Button>
      {isDiscarding && <DiscardDialog run={run} groups={waiting} onDone={onClear} onClose={() => setDiscarding(false)} />}
      {marking.error && <ErrorState title="Change failed" error={marking.error} />}
    </Group>
  );
}
