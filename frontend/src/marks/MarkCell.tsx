import { Popover } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Tag } from "lucide-react";
import { useState } from "react";
import { markWordsQuery } from "@/api/marks";
import { useMayOperate } from "@/api/session";
import { MarkBadge } from "@/marks/MarkBadge";
import { MarkBar } from "@/marks/MarkBar";
import type { Mark } from "@/marks/marks";
import styles from "@/marks/marks.module.css";

type Props = { run: string; group: { id: number; mark: Mark | null } };

/** The mark of a group in a list; opens all mark actions. */
export function MarkCell({ run, group }: Props) {
  const words = useQuery({ ...markWordsQuery(run), enabled: group.mark !== null }).data;
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
