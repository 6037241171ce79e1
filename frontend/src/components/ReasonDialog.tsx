import { Box, Button, Group, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { Dialog } from "@/components/Dialog";
import { ErrorState } from "@/components/ErrorState";
import { KEPT_IN_AUDIT } from "@/components/keptIn";

type Props = {
  title: string;
  /** What was asked of the server, as far as this must know. */
  asking: { isPending: boolean; error: Error | null };
  /** Said above what the server has against it. */
  refused: string;
  submit: string;
  /** Where the reason goes. */
  keptIn?: string;
  /** Whether what is in the dialog can be sent. */
  isReady?: boolean;
  /** Whether nothing happens without a reason. */
  needsReason?: boolean;
  destroys?: boolean;
  onSubmit: (reason: string) => void;
  onClose: () => void;
  /** What will happen, and what there is to choose; the first `data-autofocus` in it has the cursor. */
  children?: ReactNode;
};

/** Ask before something is changed: what will happen, why, and what the server had against it. Drawn only while it is open. */
export function ReasonDialog({
  title,
  asking,
  refused,
  submit,
  keptIn = KEPT_IN_AUDIT,
  isReady: isFit = true,
  needsReason,
  destroys,
  onSubmit,
  onClose,
  children,
}: Props) {
  const [reason, setReason] = useState("");
  const isReady = isFit && (!needsReason || reason.trim() !== "");
  return (
    <Dialog onClose={onClose} title={title}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          // A form around this dialog would take what is sent here for its own.
          event.stopPropagation();
          if (isReady && !asking.isPending) onSubmit(reason);
        }}
      >
        {children}
        <TextInput
          mt="md"
          label="Reason"
          description={keptIn}
          value={reason}
          maxLength={2000}
          required={needsReason}
          data-autofocus
          onChange={(event) => setReason(event.currentTarget.value)}
        />
        {asking.error && (
          <Box mt="md">
            <ErrorState title={refused} error={asking.error} />
          </Box>
        )}
        <Group justify="flex-end" mt="lg">
          <Button variant="default" onClick={onClose}>
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
