import { Popover } from "@mantine/core";
import { StickyNote, Tag } from "lucide-react";
import { useState } from "react";
import { useMayOperate } from "@/api/session";
import { visible } from "@/format";
import { MarkBar, Tags } from "@/marks/MarkBar";
import type { Mark } from "@/marks/marks";
import styles from "@/marks/marks.module.css";

type Props = { run: string; group: { id: number; mark: Mark | null } };

function Content({ mark }: { mark: Mark | null }) {
  if (!mark) return <Tag size={14} aria-hidden="true" />;
  return (
    <span className={styles.tags} title={visible([mark.tags.join(", "), mark.note].filter(Boolean).join(": "))}>
      <Tags tags={mark.tags} />
      {mark.note && <StickyNote size={14} role="img" aria-label="Noted" />}
    </span>
  );
}

/** The tags of a group in a list, and whether it has a note; opens their editor. */
export function MarkCell({ run, group }: Props) {
  const [isOpen, setOpen] = useState(false);
  if (!useMayOperate()) return group.mark && <Content mark={group.mark} />;
  return (
    <Popover opened={isOpen} onChange={setOpen} position="bottom-start" withinPortal trapFocus returnFocus shadow="md">
      <Popover.Target>
        <button type="button" className={styles.cell} onClick={() => setOpen(!isOpen)}>
          <span className="unseen">{`Tag group ${group.id}`} </span>
          <Content mark={group.mark} />
        </button>
      </Popover.Target>
      <Popover.Dropdown aria-label={`Tags of group ${group.id}`} className={styles.popover}>
        <MarkBar run={run} group={group.id} mark={group.mark} />
      </Popover.Dropdown>
    </Popover>
  );
}
