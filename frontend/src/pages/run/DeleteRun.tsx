import { TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { deletionQuery, useDeleteRun } from "@/api/runs";
import type { RunDetail } from "@/api/types";
import { ReasonDialog } from "@/components/ReasonDialog";
import { bytes, counted, visible } from "@/format";
import runCss from "@/pages/run/run.module.css";
import { unitOf } from "@/runs/queued";

/** Delete an ended run, with its name and a reason; shows the data that will be removed. */
export default function DeleteRun({ run, title, onClose }: { run: RunDetail; title: string; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const navigate = useNavigate();
  const { data: preview } = useQuery(deletionQuery(run.name));
  const remove = useDeleteRun(run.name);
  const unit = run.kind === "fleet" ? unitOf(run.kind).slice(0, -1) : "group";
  return (
    <ReasonDialog
      title={`Delete ${visible(title)}?`}
      asking={remove}
      refused="Delete failed"
      submit="Delete"
      isReady={typed === title && preview?.refusal === ""}
      needsReason
      destroys
      onSubmit={(reason) => remove.mutate(reason, { onSuccess: () => void navigate({ to: "/runs" }) })}
      onClose={onClose}
    >
      <p className={runCss.verbDoes}>
        The run disappears at once and its name is free. Its rows and files are removed in the background. This cannot be undone.{" "}
        {preview && (
          <b data-deleted>
            {preview.refusal
              ? visible(preview.refusal)
              : `${counted(preview.items, unit)} and ${bytes(preview.size_bytes)} will be removed.`}
          </b>
        )}
      </p>
      <TextInput
        mt="md"
        label={`Type ${visible(title)} to confirm`}
        value={typed}
        required
        autoComplete="off"
        spellCheck={false}
        onChange={(event) => setTyped(event.currentTarget.value)}
      />
    </ReasonDialog>
  );
}
