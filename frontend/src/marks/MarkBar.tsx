import { Button, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { StickyNote } from "lucide-react";
import { useState } from "react";
import { type MarkVocabulary, markWordsQuery, useMark } from "@/api/marks";
import { useMayOperate } from "@/api/session";
import { Age } from "@/components/Age";
import { ErrorState } from "@/components/ErrorState";
import { KeyHint } from "@/components/KeyHint";
import { visible } from "@/format";
import { LabelNames } from "@/marks/LabelNames";
import { LabelSign, MarkBadge, nameIn } from "@/marks/MarkBadge";
import { LABELS, labelAfter, type Mark } from "@/marks/marks";
import styles from "@/marks/marks.module.css";
import { NoteField } from "@/marks/NoteField";
import { useShortcuts } from "@/shell/keyboard";

type Props = {
  run: string;
  group: number;
  mark: Mark | null;
  /** Whether single-key shortcuts mark the group: on a page with one group. */
  isKeyed?: boolean;
};
type Open = "note" | "names" | null;

function Labels({ mark, words, onLabel }: { mark: Mark | null; words: MarkVocabulary | undefined; onLabel: (digit: number) => void }) {
  const nameOf = nameIn(words);
  return (
    <span className={styles.labels} role="group" aria-label="Label">
      {LABELS.map((label) => {
        const name = visible(nameOf(label));
        return (
          <Tooltip key={label} label={name ? `${label}: ${name}` : `Label ${label}`}>
            <button
              type="button"
              aria-pressed={mark?.label === label}
              aria-label={`Label ${label}${name ? ` ${name}` : ""}`}
              onClick={() => onLabel(label)}
            >
              <LabelSign label={label} />
            </button>
          </Tooltip>
        );
      })}
    </span>
  );
}

/** Keyboard shortcuts of a page with one group. */
function Keys({ onLabel, onOpen }: { onLabel: (digit: number) => void; onOpen: (part: Open) => void }) {
  const digits = Object.fromEntries([0, ...LABELS].map((digit) => [String(digit), () => onLabel(digit)]));
  useShortcuts({ ...digits, m: () => onOpen("note") });
  return null;
}

/** The marks of a group and all actions on them. */
export function MarkBar({ run, group, mark, isKeyed = false }: Props) {
  const mayOperate = useMayOperate();
  const words = useQuery(markWordsQuery(run)).data;
  const [open, setOpen] = useState<Open>(null);
  const marking = useMark(run);
  if (!mayOperate)
    return (
      mark && (
        <div className={styles.bar}>
          <MarkBadge mark={mark} words={words} />
          {mark.note && <p className={styles.note}>{visible(mark.note)}</p>}
        </div>
      )
    );
  const label = (digit: number) => marking.mutate({ groups: [group], label: labelAfter(mark, digit) });
  const named = mark?.label ? visible(nameIn(words)(mark.label)) : "";
  return (
    <div className={styles.editor}>
      {isKeyed && <Keys onLabel={label} onOpen={setOpen} />}
      <div className={styles.bar}>
        <Labels mark={mark} words={words} onLabel={label} />
        {named && <span className={styles.named}>{named}</span>}
        {!mark?.note && (
          <Button
            size="compact-sm"
            variant="default"
            aria-expanded={open === "note"}
            leftSection={<StickyNote size={14} />}
            rightSection={isKeyed && <KeyHint>m</KeyHint>}
            onClick={() => setOpen(open === "note" ? null : "note")}
          >
            Note
          </Button>
        )}
        <span className="spacer" />
        <span className="faint tiny">
          {mark?.changed_by && (
            <>
              {visible(mark.changed_by)}, <Age at={mark.changed_at} suffix=" ago" />
            </>
          )}
          {isKeyed && (
            <>
              {mark?.changed_by && " · "}
              <button type="button" className="link-button" onClick={() => setOpen("names")}>
                Name labels
              </button>
            </>
          )}
        </span>
      </div>
      <NoteField
        note={mark?.note ?? ""}
        isOpen={open === "note"}
        isBusy={marking.isPending}
        onOpen={() => setOpen("note")}
        onClose={() => setOpen(null)}
        onSave={(note) => marking.mutate({ groups: [group], note }, { onSuccess: () => setOpen(null) })}
      />
      {open === "names" && words && <LabelNames run={run} words={words} onClose={() => setOpen(null)} />}
      {marking.error && <ErrorState title="Change failed" error={marking.error} />}
    </div>
  );
}
