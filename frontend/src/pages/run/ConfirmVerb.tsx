import { Button, Group, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import type { RunSummary } from "@/api/types";
import { Dialog } from "@/components/Dialog";
import { RECORDED_IN_EVENTS } from "@/components/recordedIn";
import { deleteDraft, useDraft } from "@/components/useDraft";
import { useRun } from "@/pages/run/RunContext";
import runCss from "@/pages/run/run.module.css";
import { droppedText, VERBS, type Verb } from "@/pages/run/verbs";

type Props = { run: RunSummary; verb: Verb; onCancel: () => void; onConfirm: (reason: string) => void };

/** Draft key of a verb's reason; cleared once the verb succeeded. */
export const draftOf = (run: string, verb: Verb) => `verb:${run}:${verb}`;

/** Confirm a verb and take a reason; irreversible verbs also require the run's name. */
export function ConfirmVerb({ run, verb, onCancel, onConfirm }: Props) {
  const draft = draftOf(run.name, verb);
  const [reason, setReason] = useDraft(draft);
  const [typed, setTyped] = useState("");
  const { label, does, destroys, typed: needsName } = VERBS[verb];
  const dropped = droppedText(verb, run, useRun().ledger);
  const isReady = !needsName || (typed === run.name && reason.trim() !== "");
  return (
    <Dialog onClose={onCancel} title={`${label} ${run.name}?`}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady) onConfirm(reason);
        }}
      >
        <p className={runCss.verbDoes}>
          {does} {dropped && <b data-dropped>{dropped}</b>}
        </p>
        <Textarea
          label="Reason"
          description={RECORDED_IN_EVENTS}
          value={reason}
          maxLength={2000}
          required={needsName}
          autosize
          minRows={2}
          data-autofocus
          onChange={(event) => setReason(event.currentTarget.value)}
        />
        {needsName && (
          <TextInput
            mt="md"
            label={`Type ${run.name} to confirm`}
            value={typed}
            required
            autoComplete="off"
            spellCheck={false}
            onChange={(event) => setTyped(event.currentTarget.value)}
          />
        )}
        <Group className="dialog-foot" justify="flex-end" mt="lg">
          <Button
            variant="default"
            onClick={() => {
              deleteDraft(draft);
              onCancel();
            }}
          >
            Cancel
          </Button>
          <Button type="submit" disabled={!isReady} color={destroys ? "red.8" : undefined}>
            {label}
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
