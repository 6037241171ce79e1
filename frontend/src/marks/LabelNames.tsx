import { Button, Group } from "@mantine/core";
import { useState } from "react";
import { type MarkVocabulary, useNameLabels } from "@/api/marks";
import { Dialog } from "@/components/Dialog";
import { ErrorState } from "@/components/ErrorState";
import { number } from "@/format";
import { LabelSign } from "@/marks/MarkBadge";
import styles from "@/marks/marks.module.css";

type Props = { run: string; words: MarkVocabulary; onClose: () => void };

/** Name the labels of a run; the digit remains the keyboard shortcut. */
export function LabelNames({ run, words, onClose }: Props) {
  const [typed, setTyped] = useState<Record<number, string>>({});
  const naming = useNameLabels(run);
  const changed = words.labels.flatMap(({ label, name }) => {
    const wanted = typed[label]?.trim();
    return wanted === undefined || wanted === name ? [] : [{ label, name: wanted }];
  });
  return (
    <Dialog onClose={onClose} title={`Labels of ${run}`}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          naming.mutate(changed, { onSuccess: onClose });
        }}
      >
        <p className="small soft">All users of the run see these names; the audit log records the author.</p>
        <div className={styles.names}>
          {words.labels.map(({ label, name, groups }) => (
            <label key={label}>
              <LabelSign label={label} />
              <input
                aria-label={`Name of label ${label}`}
                maxLength={40}
                value={typed[label] ?? name}
                placeholder="no name"
                onChange={(event) => setTyped({ ...typed, [label]: event.currentTarget.value })}
              />
              <span className="faint tiny num">{groups > 0 ? `${number(groups)} groups` : ""}</span>
            </label>
          ))}
        </div>
        {naming.error && <ErrorState title="Renaming failed" error={naming.error} />}
        <Group className="dialog-foot" justify="flex-end" mt="lg">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" disabled={changed.length === 0} loading={naming.isPending}>
            Save names
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
