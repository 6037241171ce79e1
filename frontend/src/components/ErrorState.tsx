import { Alert, Button, Group } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { Copy } from "@/components/Copying";
import { visible } from "@/format";

type Props = {
  title: string;
  error: unknown;
  next?: ReactNode;
  /** While a returned promise is pending, the button shows it. */
  onRetry?: () => unknown;
  /** Whether a report with the stack can be copied: for exceptions of the dashboard itself. */
  isCopyable?: boolean;
};

/** An exception as text for a bug report. */
function report(title: string, error: unknown): string {
  const detail = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return [title, location.href, navigator.userAgent, detail].join("\n");
}

/** An error in the server's words, with the next step. */
export function ErrorState({ title, error, next, onRetry, isCopyable = false }: Props) {
  const [isRetrying, setRetrying] = useState(false);
  const message = error instanceof Error ? error.message : String(error);
  const retry = async () => {
    setRetrying(true);
    try {
      await onRetry?.();
    } finally {
      setRetrying(false);
    }
  };
  return (
    <Alert color="red" variant="light" title={title} role="alert">
      <div className="anywhere">{visible(message)}</div>
      {next && <div style={{ marginTop: "0.5rem" }}>{next}</div>}
      {(onRetry || isCopyable) && (
        <Group gap="xs" mt="sm">
          {onRetry && (
            <Button size="compact-sm" variant="default" loading={isRetrying} onClick={() => void retry()}>
              Retry
            </Button>
          )}
          {isCopyable && <Copy text={report(title, error)} words="Copy error" size="compact-sm" />}
        </Group>
      )}
    </Alert>
  );
}
