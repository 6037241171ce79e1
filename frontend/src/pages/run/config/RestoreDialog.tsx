import { useChangeRun } from "@/api/runs";
import type { RunDetail } from "@/api/types";
import { KEPT_IN_EVENTS } from "@/components/keptIn";
import { ReasonDialog } from "@/components/ReasonDialog";
import { visible } from "@/format";
import type { PutBack } from "@/pages/run/config/revisions";

type Props = { run: RunDetail; back: PutBack; onClose: () => void };

/** Ask before settings are put back, each as it is and as it will be. */
export function RestoreDialog({ run, back, onClose }: Props) {
  const change = useChangeRun(run.name);
  return (
    <ReasonDialog
      title="Restore these settings?"
      asking={change}
      refused="The settings stay as they are"
      keptIn={KEPT_IN_EVENTS}
      submit="Restore"
      onSubmit={(reason) => change.mutate({ ...back.changes, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p className="small">
        The run goes on with them at once, as if somebody had set them one by one. The change stands in the history like any other.
      </p>
      <ul className="revisions small" aria-label="What will change">
        {back.rows.map(({ name, before, after }) => (
          <li key={name} className="anywhere">
            <span className="mono tiny">{name}</span> <del className="faint">{visible(before)}</del> → <b>{visible(after)}</b>
          </li>
        ))}
      </ul>
    </ReasonDialog>
  );
}
