import { Button, Group, PasswordInput, Stack } from "@mantine/core";
import { useState } from "react";
import { ApiProblem } from "@/api/problems";
import { useChangePassword } from "@/api/session";
import { Dialog } from "@/components/Dialog";
import { ErrorState } from "@/components/ErrorState";

/** Change the user's own password. */
export function PasswordForm({ onClose }: { onClose: () => void }) {
  const change = useChangePassword();
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const fields = change.error instanceof ApiProblem ? change.error.fields : [];
  const wrong = (field: string) => fields.find((each) => each.field === field)?.message;
  return (
    <Dialog onClose={onClose} title="Change password">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          change.mutate({ current_password: current, new_password: next }, { onSuccess: onClose });
        }}
      >
        <Stack>
          <PasswordInput
            label="Current password"
            autoComplete="current-password"
            required
            data-autofocus
            value={current}
            error={wrong("current_password")}
            onChange={(event) => setCurrent(event.currentTarget.value)}
          />
          <PasswordInput
            label="New password"
            description="Signs you out in other browsers. Tokens stay valid."
            autoComplete="new-password"
            required
            value={next}
            error={wrong("new_password")}
            onChange={(event) => setNext(event.currentTarget.value)}
          />
          {change.isError && fields.length === 0 && <ErrorState title="Password not changed" error={change.error} />}
          <Group className="dialog-foot" justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" loading={change.isPending}>
              Change password
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
