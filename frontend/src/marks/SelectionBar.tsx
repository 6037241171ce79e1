import { Button, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Trash2 } from "lucide-react";
import { useState } from "react";
import { markWordsQuery, useMark } from "@/api/marks";
import { ErrorState } from "@/components/ErrorState";
import { number, visible } from "@/format";
import { DiscardDialog } from "@/marks/DiscardDialog";
import { LabelSign, nameIn } from "@/marks/MarkBadge";
import { LABELS, labelOfAll, type Mark, MOST_AT_ONCE } from "@/marks/marks";
import styles from "@/marks/marks.module.css";

type Props = { run: string; groups: { id: number; mark: Mark | null; state: string }[]; onClear: () => void };

/** Bulk mark actions on the selected groups, one request each. */
export function SelectionBar({ run, groups, onClear }: Props) {
  const words = useQuery(markWordsQuery(run)).data;
  const [isDiscarding, setDiscarding] = useState(false);
  const marking = useMark(run);
  const ids = groups.map(({ id }) => id);
  const label = labelOfAll(groups);
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
          onClick={() => inQueue.length > 0 && setDiscarding(true)}
        >
          Discard…
        </Button>
      </Tooltip>
      <span className="spacer" />
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
