import { Button, Tooltip } from "@mantine/core";
import { Layers, Pin, Trash2 } from "lucide-react";
import { useState } from "react";
import type { GroupSummary } from "@/api/groups";
import { type MarkVocabulary, useChangeSet, useMark } from "@/api/marks";
import { ErrorState } from "@/components/ErrorState";
import { number, visible } from "@/format";
import { AddToSet } from "@/marks/AddToSet";
import { DiscardDialog } from "@/marks/DiscardDialog";
import { LabelSign, nameIn } from "@/marks/MarkBadge";
import { LABELS, labelOfAll, MOST_AT_ONCE } from "@/marks/marks";
import styles from "@/marks/marks.module.css";

type Props = { run: string; groups: GroupSummary[]; words?: MarkVocabulary; onClear: () => void };

/** Bulk mark actions on the selected groups, one request each. */
export function SelectionBar({ run, groups, words, onClear }: Props) {
  const [open, setOpen] = useState<"set" | "discard" | null>(null);
  const marking = useMark(run);
  const placing = useChangeSet(run);
  const ids = groups.map(({ id }) => id);
  const label = labelOfAll(groups);
  const arePinned = groups.every(({ mark }) => mark?.is_pinned);
  const inQueue = groups.filter(({ state }) => state === "queued" || state === "waiting");
  const error = marking.error ?? placing.error;
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
  const nameOf = nameIn(words);
  return (
    <div className={styles.selection} role="group" aria-label="Selected groups">
      <b role="status">{number(ids.length)} selected</b>
      <span className={styles.labels} role="group" aria-label="Label selected groups">
        {LABELS.map((each) => {
          const title = `Label all ${each} ${visible(nameOf(each))}`.trimEnd();
          return (
            <Tooltip key={each} label={label === each ? `Remove label ${each} from all` : title}>
              <button
                type="button"
                aria-pressed={label === each}
                aria-label={title}
                onClick={() => marking.mutate({ groups: ids, label: label === each ? null : each })}
              >
                <LabelSign label={each} />
              </button>
            </Tooltip>
          );
        })}
      </span>
      <Button
        size="compact-sm"
        variant="default"
        aria-pressed={arePinned}
        loading={marking.isPending}
        leftSection={<Pin size={14} fill={arePinned ? "currentColor" : "none"} />}
        onClick={() => marking.mutate({ groups: ids, is_pinned: !arePinned })}
      >
        {arePinned ? "Unpin all" : "Pin all"}
      </Button>
      <Button
        size="compact-sm"
        variant="default"
        aria-expanded={open === "set"}
        leftSection={<Layers size={14} />}
        onClick={() => setOpen(open === "set" ? null : "set")}
      >
        Add all to a set
      </Button>
      <Tooltip
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
          onClick={() => inQueue.length > 0 && setOpen("discard")}
        >
          Discard…
        </Button>
      </Tooltip>
      <span className="spacer" />
      <Button size="compact-sm" variant="subtle" onClick={onClear}>
        Clear selection
      </Button>
      {open === "set" && (
        <AddToSet
          words={words}
          already={[]}
          isBusy={placing.isPending}
          onAdd={(set) => placing.mutate({ set, add: ids }, { onSuccess: () => setOpen(null) })}
          onClose={() => setOpen(null)}
        />
      )}
      {open === "discard" && (
        <DiscardDialog run={run} groups={inQueue.map(({ id }) => id)} onDone={onClear} onClose={() => setOpen(null)} />
      )}
      {error && <ErrorState title="Change failed" error={error} />}
    </div>
  );
}
