import { Box, Button, Group, TextInput } from "@mantine/core";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { Dialog } from "@/components/Dialog";
import { ErrorState } from "@/components/ErrorState";
import { RECORDED_IN_AUDIT } from "@/components/recordedIn";
import { deleteDraft, useDraft } from "@/components/useDraft";
import { visible } from "@/format";

type Props = {
  title: string;
  size?: string;
  /** The state of the mutation. */
  asking: { isPending: boolean; error: Error | null };
  /** Title of the error message. */
  refused: string;
  submit: string;
  /** Where the reason is recorded. */
  recordedIn?: string;
  /** Whether the dialog's contents are valid. */
  isReady?: boolean;
  /** Whether a reason is required. */
  needsReason?: boolean;
  /** Text to type before the change, such as a name or a number. */
  typed?: string;
  destroys?: boolean;
  onSubmit: (reason: string) => void;
  onClose: () => void;
  /** The effects of the action and its options; the first `data-autofocus` element gets focus. */
  children?: ReactNode;
};

/** Confirm a change: its effects, the reason, and the server's error if any. Mounted only while open. */
export function ReasonDialog({
  title,
  size,
  asking,
  refused,
  submit,
  recordedIn = RECORDED_IN_AUDIT,
  isReady: isFit = true,
  needsReason,
  typed,
  destroys,
  onSubmit,
  onClose,
  children,
}: Props) {
  const [reason, setReason] = useDraft(title);
  // Kept while the session ends; dropped by a close, and by a submit that was not refused.
  const isDone = useRef(false);
  useEffect(() => () => void (isDone.current && deleteDraft(title)), [title]);
  useEffect(() => {
    if (asking.error) isDone.current = false;
  }, [asking.error]);
  const close = () => {
    isDone.current = true;
    onClose();
  };
  const [confirmed, setConfirmed] = useState("");
  const isReady = isFit && (!needsReason || reason.trim() !== "") && (typed === undefined || confirmed.trim() === typed);
  return (
    <Dialog onClose={close} title={title} size={size}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          // Otherwise a form around this dialog would handle the submit event.
          event.stopPropagation();
          if (!isReady || asking.isPending) return;
          isDone.current = true;
          onSubmit(reason);
        }}
      >
        {children}
        <TextInput
          mt="md"
          label="Reason"
          description={recordedIn}
          value={reason}
          maxLength={2000}
          required={needsReason}
          data-autofocus
          onChange={(event) => setReason(event.currentTarget.value)}
        />
        {typed !== undefined && (
          <TextInput
            mt="md"
            label={`Type ${visible(typed)} to confirm`}
            value={confirmed}
            required
            autoComplete="off"
            spellCheck={false}
            onChange={(event) => setConfirmed(event.currentTarget.value)}
          />
        )}
        {asking.error && (
          <Box mt="md">
            <ErrorState title={refused} error={asking.error} />
          </Box>
        )}
        <Group className="dialog-foot" justify="flex-end" mt="lg">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button type="submit" color={destroys ? "red.8" : undefined} loading={asking.isPending} disabled={!isReady}>
            {submit}
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
