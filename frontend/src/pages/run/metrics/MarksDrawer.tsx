import { ActionIcon, VisuallyHidden } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import { useState } from "react";
import { useMayOperate } from "@/api/session";
import { type Column, DataTable } from "@/components/DataTable";
import { ReasonDialog, SideSheet } from "@/components/Dialog";
import { Age } from "@/components/inline";
import { EmptyState, rolldeckCommand } from "@/components/panels";
import { number, visible } from "@/format";
import { type Annotation, annotationsQuery, useDeleteAnnotation } from "@/pages/run/marks";

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

const columnsOf = (mayOperate: boolean, onDelete: (row: Annotation) => void): Column<Annotation>[] => [
  {
    label: "Annotation",
    className: "anywhere",
    cell: ({ text, created_by, created_at }) => (
      <>
        {visible(text)}
        <div className="faint small">
          {visible(created_by)}, <Age at={created_at} suffix=" ago" />
        </div>
      </>
    ),
  },
  { label: "Train step", isNumber: true, cell: ({ step }) => number(step) },
  {
    id: "actions",
    label: <VisuallyHidden>Actions</VisuallyHidden>,
    cell: (row) =>
      (row.is_own || mayOperate) && (
        <ActionIcon variant="subtle" color="gray" size="sm" aria-label={`Remove “${visible(row.text)}”`} onClick={() => onDelete(row)}>
          <X size={14} aria-hidden="true" />
        </ActionIcon>
      ),
  },
];

/** Annotations of users on a run's charts. */
export default function MarksDrawer({ run, onClose }: { run: string; onClose: () => void }) {
  const { data, error } = useQuery(annotationsQuery(run));
  const mayOperate = useMayOperate();
  const [deleted, setDeleted] = useState<Annotation | null>(null);
  return (
    <SideSheet onClose={onClose} size="md" title="Annotations" isBeside>
      <DataTable
        label="Annotations, newest first"
        rows={data?.results.toReversed()}
        error={error}
        columns={columnsOf(mayOperate, setDeleted)}
        keyOf={({ id }) => id}
        attributes={({ id }) => ({ "data-annotation": id })}
        empty={
          <EmptyState
            title="No user annotations yet"
            command={rolldeckCommand(`api POST runs/${run}/annotations step=40 text="a new data mix"`)}
            needs={{ scope: "user", run }}
          >
            Click a point of a chart and enter a short text to annotate it. Changes of the run’s state, settings and epoch appear as dotted
            lines.
          </EmptyState>
        }
      />
      {deleted && <Delete run={run} row={deleted} onClose={() => setDeleted(null)} />}
    </SideSheet>
  );
}
