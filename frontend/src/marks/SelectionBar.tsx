import { Button, Space } from "@mantine/core";
import { Trash2 } from "lucide-react";
import { useState } from "react";
import { useMark } from "@/api/marks";
import { Hint } from "@/components/inline";
import { ErrorState } from "@/components/panels";
import { number } from "@/format";
import { DiscardDialog } from "@/marks/DiscardDialog";
import { TagsField } from "@/marks/MarkBar";
import { type Mark, MOST_AT_ONCE, tagsOfAll } from "@/marks/marks";
import styles from "@/marks/marks.module.css";

type Props = { run: string; groups: { id: number; mark: Mark | null; state: string }[]; onClear: () => void };

/** Tags of the selected groups, and their removal from the queue. */
export function SelectionBar({ run, groups, onClear }: Props) {
  const [isDiscarding, setDiscarding] = useState(false);
  const marking = useMark(run);
  const ids = groups.map(({ id }) => id);
  const inQueue = groups.filter(({ state }) => state === "queued" || state === "waiting");
  if (ids.length > MOST_AT_ONCE) {
    return (
      <div className={styles.selection} role="group" aria-label="Selected groups">
        <b>{number(ids.length)} selected</b> <span className="held small">At most {MOST_AT_ONCE} per request.</span>
        <Button size="compact-sm" variant="subtle" onClick={onClear}>
          Clear selection
        </Button>
      </div>
    );
  }
  return (
    <div className={styles.selection} role="group" aria-label="Selected groups">
      <b role="status">{number(ids.length)} selected</b>
      <TagsField
        run={run}
        label="Tags of all selected groups"
        tags={tagsOfAll(groups)}
        onChange={(change) => marking.mark({ groups: ids, ...change })}
      />
      <Hint
        label={
          inQueue.length > 0
            ? `Removes ${number(inQueue.length)} waiting groups of the selection from the queue permanently.`
            : "None of the selected groups is waiting in the queue."
        }
      >
        <Button
          size="compact-sm"
          variant="default"
          data-disabled={inQueue.length === 0 || undefined}
          aria-disabled={inQueue.length === 0 || undefined}
          leftSection={<Trash2 size={14} />}
          onClick={() => inQueue.length > 0 && setDiscarding(true)}
        >
          Discard…
        </Button>
      </Hint>
      <Space flex={1} />
      <Button size="compact-sm" variant="subtle" onClick={onClear}>
        Clear selection
      </Button>
      {isDiscarding && (
        <DiscardDialog run={run} groups={inQueue.map(({ id }) => id)} onDone={onClear} onClose={() => setDiscarding(false)} />
      )}
      {marking.error && <ErrorState title="Change failed" error={marking.error} />}
    </div>
  );
}
