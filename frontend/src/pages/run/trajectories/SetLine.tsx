import { useState } from "react";
import { type MarkVocabulary, useDropSet } from "@/api/marks";
import { useMayOperate } from "@/api/session";
import { Age } from "@/components/Age";
import { ReasonDialog } from "@/components/ReasonDialog";
import { RECORDED_IN_EVENTS } from "@/components/recordedIn";
import { number, visible } from "@/format";
import styles from "@/pages/run/trajectories/trajectories.module.css";

type DropProps = { run: string; name: string; groups: number; onClose: () => void; onDropped: () => void };

function DropSet({ run, name, groups, onClose, onDropped }: DropProps) {
  const dropping = useDropSet(run);
  return (
    <ReasonDialog
      title={`Delete the set ${name}?`}
      asking={dropping}
      refused="Set not deleted"
      recordedIn={RECORDED_IN_EVENTS}
      submit="Delete set"
      destroys
      onSubmit={(reason) => dropping.mutate({ set: name, reason }, { onSuccess: onDropped })}
      onClose={onClose}
    >
      <p>Its {number(groups)} groups are kept, with their labels and notes. The audit log records the members.</p>
    </ReasonDialog>
  );
}

type Props = { run: string; name: string; words: MarkVocabulary | undefined; onDropped: () => void };

/** The set that filters the list: author, size, and the delete action. */
export function SetLine({ run, name, words, onDropped }: Props) {
  const mayOperate = useMayOperate();
  const [isAsking, setAsking] = useState(false);
  const found = words?.sets.find((set) => set.name === name);
  if (!words) return null;
  if (!found) return <p className={styles.setLine}>This run has no set {visible(name)}.</p>;
  return (
    <p className={styles.setLine}>
      <span>
        Set <b>{found.name}</b>: {number(found.groups)} groups, created by {visible(found.created_by)}{" "}
        <Age at={found.created_at} suffix=" ago" />
      </span>
      {mayOperate && (
        <button type="button" className="link-button" onClick={() => setAsking(true)}>
          Delete set…
        </button>
      )}
      {isAsking && <DropSet run={run} name={name} groups={found.groups} onClose={() => setAsking(false)} onDropped={onDropped} />}
    </p>
  );
}
