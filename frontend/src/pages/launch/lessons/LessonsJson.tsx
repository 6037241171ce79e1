import { Textarea } from "@mantine/core";
import { useState } from "react";
import type { Field } from "@/forms/fields";
import { jsonOf, readLessons } from "@/pages/launch/lessons/lessonText";

/** The lessons as JSON; valid text becomes rows. */
export function LessonsJson({ field, answer, onChange }: { field: Field; answer: string; onChange: (answer: string) => void }) {
  // While being edited, the text may be invalid or differ from the canonical format.
  const [typed, setTyped] = useState<string | null>(null);
  const text = typed ?? jsonOf(field, answer);
  const read = readLessons(field, text);
  return (
    <Textarea
      aria-label="Lessons as JSON"
      classNames={{ input: "mono tiny" }}
      autosize
      minRows={6}
      maxRows={30}
      spellCheck={false}
      value={text}
      error={"problem" in read && read.problem}
      onChange={(event) => {
        const next = event.currentTarget.value;
        const found = readLessons(field, next);
        setTyped(next);
        onChange("answer" in found ? found.answer : next);
      }}
      onBlur={() => "answer" in read && setTyped(null)}
    />
  );
}
