import { TagsInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type Ref, useRef, useState } from "react";
import { LONGEST_TAG, MOST_TAGS } from "@/marks/marks";
import { valuesQuery } from "@/samples/samples";

type Props = {
  run: string;
  label: string;
  tags: string[];
  /** Resolves when the server has answered, also with an error. */
  onChange: (change: { add_tags: string[]; remove_tags: string[] }) => Promise<unknown>;
  inputRef?: Ref<HTMLInputElement>;
};

/** Tags as chips, with an input that completes the tags of the run. */
export function TagsField({ run, label, tags, onChange, inputRef }: Props) {
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
