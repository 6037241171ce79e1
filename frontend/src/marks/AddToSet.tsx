import { Button } from "@mantine/core";
import { useId, useState } from "react";
import type { MarkVocabulary } from "@/api/marks";
import { number } from "@/format";
import { setNameOf, setNameProblem } from "@/marks/marks";
import styles from "@/marks/marks.module.css";

type Props = { words: MarkVocabulary | undefined; already: string[]; isBusy: boolean; onAdd: (set: string) => void; onClose: () => void };

/** Choose a set of the run, or create one. */
export function AddToSet({ words, already, isBusy, onAdd, onClose }: Props) {
  const [typed, setTyped] = useState("");
  const id = useId();
  const name = setNameOf(typed);
  const problem = name ? setNameProblem(name) : "";
  const others = words?.sets.filter((set) => !already.includes(set.name)) ?? [];
  const isNew = name !== "" && !problem && !words?.sets.some((set) => set.name === name);
  return (
    <form
      className={styles.part}
      onKeyDown={(event) => event.key === "Escape" && onClose()}
      onSubmit={(event) => {
        event.preventDefault();
        if (name && !problem) onAdd(name);
      }}
    >
      {others.slice(0, 12).map((set) => (
        <Button key={set.name} size="compact-sm" variant="default" disabled={isBusy} onClick={() => onAdd(set.name)}>
          {set.name} <span className="faint tiny">&nbsp;{number(set.groups)}</span>
        </Button>
      ))}
      <label htmlFor={id} className="unseen">
        Name of the set
      </label>
      <input
        id={id}
        list={`${id}-sets`}
        autoFocus
        placeholder="name of the set"
        value={typed}
        maxLength={60}
        onChange={(event) => setTyped(event.currentTarget.value)}
        aria-describedby={problem ? `${id}-problem` : undefined}
      />
      <datalist id={`${id}-sets`}>
        {others.map((set) => (
          <option key={set.name} value={set.name} />
        ))}
      </datalist>
      <Button type="submit" size="compact-sm" disabled={!name || problem !== ""} loading={isBusy}>
        {isNew ? "Create set" : "Add"}
      </Button>
      <Button size="compact-sm" variant="subtle" onClick={onClose}>
        Cancel
      </Button>
      {problem && (
        <span id={`${id}-problem`} className="small bad" role="alert">
          {problem}
        </span>
      )}
    </form>
  );
}
