import { Alert, Button } from "@mantine/core";
import type { ReactNode } from "react";
import { visible } from "@/format";

type Props = { title: string; error: unknown; next?: ReactNode; onRetry?: () => void };

/** An error in the server's words, with the next step. */
export function ErrorState({ title, error, next, onRetry }: Props) {
  const message = error instanceof Error ? error.message : String(error);
  return (
    <Alert color="red" variant="light" title={title} role="alert">
      <div className="anywhere">{visible(message)}</div>
      {next && <div style={{ marginTop: "0.5rem" }}>{next}</div>}
      {onRetry && (
        <Button size="compact-sm" variant="default" mt="sm" onClick={onRetry}>
          Retry
        </Button>
      )}
    </Alert>
  );
}
