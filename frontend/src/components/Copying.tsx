import { Button, CopyButton } from "@mantine/core";

/** A button that copies a text, and says so for a moment. */
export function Copy({ text, label }: { text: string; label?: string }) {
  return (
    <CopyButton value={text}>
      {({ copied, copy }) => (
        <Button size="compact-xs" variant="default" onClick={copy} aria-label={label}>
          {copied ? "Copied" : "Copy"}
        </Button>
      )}
    </CopyButton>
  );
}

/** One command, or another line to take along. */
export function Command({ text }: { text: string }) {
  return (
    <div className="command">
      <code>{text}</code>
      <Copy text={text} />
    </div>
  );
}

/** Several lines to paste somewhere. */
export function Lines({ text }: { text: string }) {
  return (
    <div className="lines">
      <pre tabIndex={0}>{text}</pre>
      <Copy text={text} />
    </div>
  );
}
