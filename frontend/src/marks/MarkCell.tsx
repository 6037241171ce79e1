import { Popover } from "@mantine/core";
import { Tag } from "lucide-react";
import { useState } from "react";
import type { GroupSummary } from "@/api/groups";
import type { MarkVocabulary } from "@/api/marks";
import { useMayOperate } from "@/api/session";
import { MarkBadge } from "@/marks/MarkBadge";
import { MarkBar } from "@/marks/MarkBar";
import styles from "@/marks/marks.module.css";

type Props = { run: string; group: GroupSummary; words?: MarkVocabulary };

/** The mark of a group in a list; opens all mark actions. */
export function MarkCell({ run, group, words }: Props) {
  const [isOpen, setOpen] = useState(false);
  if (!useMayOperate()) return <MarkBadge mark={group.mark} words={words} />;
  return (
    <Popover opened={isOpen} onChange={setOpen} position="bottom-start" withinPortal trapFocus returnFocus shadow="md">
      <Popover.Target>
        <button type="button" className={styles.cell} data-empty={group.mark === null || undefined} onClick={() => setOpen(!isOpen)}>
          <span className="unseen">{`Mark group ${group.id}`} </span>
          {group.mark ? <MarkBadge mark={group.mark} words={words} /> : <Tag size={14} aria-hidden="true" />}
        </button>
      </Popover.Target>
      <Popover.Dropdown aria-label={`Mark group ${group.id}`} className={styles.popover}>
        <MarkBar run={run} group={group.id} mark={group.mark} />
      </Popover.Dropdown>
    </Popover>
  );
}
