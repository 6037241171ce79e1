import { useState } from "react";
import { type MarkWords, useDropSet } from "@/api/marks";
import { useMayOperate } from "@/api/session";
import { Age } from "@/components/Age";
import { KEPT_IN_EVENTS } from "@/components/keptIn";
import { ReasonDialog } from "@/components/ReasonDialog";
import { number } from "@/format";
import styles from "@/pages/run/trajectories/trajectories.module.css";
import { plain } from "@/pages/viewer/hostile";

type DropProps = { run: string; name: string; groups: number; onClose: () => void; onDropped: () => void };

function DropSet({ run, name, groups, onClose, onDropped }: DropProps) {
  const dropping = useDropSet(run);
  return (
    <ReasonDialog
      title={`End the set ${name}?`}
      asking={dropping}
      refused="The set is still there"
      keptIn={KEPT_IN_EVENTS}
      submit="End the set"
      destroys
      onSubmit={(reason) => dropping.mutate({ set: name, reason }, { onSuccess: onDropped })}
      onClose={onClose}
    >
      <p>Its {number(groups)} groups stay as they are, with their labels and notes. The audit keeps which they were.</p>
    </ReasonDialog>
  );
}

type Props = { run: string; name: string; words: MarkWords | undefined; onDropped: () => void };

/** The set that a list shows: whose it is, how large, and the way to end it. */
export function SetLine({ run, name, words, onDropped }: Props) {
  const mayOperate = useMayOperate();
  const [isAsking, setAsking] = useState(false);
  const found = words?.sets.find((set) => set.name === name);
  if (!words) return null;
  if (!found) return <p className={styles.setLine}>The run has no set {plain(name)}.</p>;
  return (
    <p className={styles.setLine}>
      <span>
        Set <b>{found.name}</b>: {number(found.groups)} groups, made by {plain(found.created_by)}{" "}
        <Age at={found.created_at} suffix=" ago" />
      </span>
      {mayOperate && (
        <button type="button" className="link-button" onClick={() => setAsking(true)}>
          End the set…
        </button>
      )}
      {isAsking && <DropSet run={run} name={name} groups={found.groups} onClose={() => setAsking(false)} onDropped={onDropped} />}
    </p>
  );
}
