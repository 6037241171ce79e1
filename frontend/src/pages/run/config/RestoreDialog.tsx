import { useChangeRun } from "@/api/runs";
import type { RunDetail } from "@/api/types";
import { ReasonDialog } from "@/components/ReasonDialog";
import { RECORDED_IN_EVENTS } from "@/components/recordedIn";
import { visible } from "@/format";
import css from "@/pages/run/config/config.module.css";
import type { PutBack } from "@/pages/run/config/revisions";

type Props = { run: RunDetail; back: PutBack; onClose: () => void };

/** Confirm restoring settings, with the current and restored values. */
export function RestoreDialog({ run, back, onClose }: Props) {
  const change = useChangeRun(run.name);
  return (
    <ReasonDialog
      title="Restore these settings?"
      asking={change}
      refused="Settings not restored"
      recordedIn={RECORDED_IN_EVENTS}
      submit="Restore"
      onSubmit={(reason) => change.mutate({ ...back.changes, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p className="small">
        Takes effect immediately, as if each setting were changed manually. The restore is recorded in the change history.
      </p>
      <ul className={`${css.revisions} small`} aria-label="Changes">
        {back.rows.map(({ name, before, after }) => (
          <li key={name} className="anywhere">
            <span className="mono tiny">{name}</span> <del className="faint">{visible(before)}</del> → <b>{visible(after)}</b>
          </li>
        ))}
      </ul>
    </ReasonDialog>
  );
}
