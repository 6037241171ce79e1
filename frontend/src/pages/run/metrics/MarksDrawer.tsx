import { ActionIcon, SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import { useState } from "react";
import { useMayOperate } from "@/api/session";
import { ReasonDialog, SideSheet } from "@/components/Dialog";
import { Age, Moment } from "@/components/inline";
import { EmptyState, ErrorState, rolldeckCommand, Skeletons } from "@/components/panels";
import { number, visible } from "@/format";
import { type Annotation, annotationsQuery, type Shown, useDeleteAnnotation } from "@/pages/run/marks";
import classes from "./metrics.module.css";

const SHOWN = [
  { value: "all", label: "All" },
  { value: "notes", label: "Only user annotations" },
  { value: "none", label: "None" },
];

function Delete({ run, row, onClose }: { run: string; row: Annotation; onClose: () => void }) {
  const remove = useDeleteAnnotation(run, row.id);
  return (
    <ReasonDialog
      title="Remove annotation?"
      submit="Remove annotation"
      destroys
      asking={remove}
      refused="Annotation not removed"
      onClose={onClose}
      onSubmit={(reason) => remove.mutate(reason, { onSuccess: onClose })}
    >
      <p>“{visible(row.text)}” is removed from all charts; the audit log keeps a record.</p>
    </ReasonDialog>
  );
}

type Props = { run: string; shown: Shown; onShow: (shown: Shown) => void; onClose: () => void };

/** Annotations on a run's charts: users' notes and run events. */
export default function MarksDrawer({ run, shown, onShow, onClose }: Props) {
  const { data, error } = useQuery(annotationsQuery(run));
  const mayOperate = useMayOperate();
  const [deleted, setDeleted] = useState<Annotation | null>(null);
  const rows = [...(data?.results ?? [])].reverse();
  return (
    <SideSheet onClose={onClose} size="md" title="Annotations" isBeside>
      <SegmentedControl
        size="xs"
        fullWidth
        aria-label="Shown annotations"
        data={SHOWN}
        value={shown}
        onChange={(value) => onShow(value as Shown)}
      />
      {error && <ErrorState title="Annotations unavailable" error={error} />}
      {!data && !error && <Skeletons heights={[120]} />}
      {data && rows.length === 0 && (
        <EmptyState
          title="No user annotations yet"
          command={rolldeckCommand(`api POST runs/${run}/annotations step=40 text="a new data mix"`)}
          needs={{ scope: "user", run }}
        >
          Click a point of a chart and enter a short text to annotate it. Changes of the run’s state, settings and epoch appear
          automatically as dotted lines.
        </EmptyState>
      )}
      <ul className={classes.marks}>
        {rows.map((row) => (
          <li key={row.id} data-annotation={row.id}>
            <span className="anywhere">
              {visible(row.text)}
              <span className="faint small">
                {" "}
                {visible(row.created_by)} · <Moment at={row.at} />
                {row.step !== null && `, train step ${number(row.step)}`} · <Age at={row.created_at} suffix=" ago" />
              </span>
            </span>
            {(row.is_own || mayOperate) && (
              <ActionIcon
                variant="subtle"
                color="gray"
                size="sm"
                aria-label={`Remove “${visible(row.text)}”`}
                onClick={() => setDeleted(row)}
              >
                <X size={14} aria-hidden="true" />
              </ActionIcon>
            )}
          </li>
        ))}
      </ul>
      {deleted && <Delete run={run} row={deleted} onClose={() => setDeleted(null)} />}
    </SideSheet>
  );
}
