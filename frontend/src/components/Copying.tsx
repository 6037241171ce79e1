import { Button } from "@mantine/core";
import { useEffect, useState } from "react";
import { copyText } from "@/charts/save";

const SAID_MS = 1_500;

type CopyProps = {
  /** What is put on the clipboard; also where the page came over plain HTTP. */
  text: string;
  /** What it copies, for those who meet several of these buttons on a page. */
  label?: string;
  words?: string;
  size?: "compact-xs" | "compact-sm";
};

/** Copy a text when asked, and know for a moment that it was copied. */
export function useCopying(): { isSaid: boolean; copy: (text: string) => void } {
  const [isSaid, setSaid] = useState(false);
  useEffect(() => {
    if (!isSaid) return;
    const timer = setTimeout(() => setSaid(false), SAID_MS);
    return () => clearTimeout(timer);
  }, [isSaid]);
  const copy = (text: string) => {
    copyText(text);
    setSaid(true);
  };
  return { isSaid, copy };
}

/** A button that copies a text, and says so for a moment. */
export function Copy({ text, label, words = "Copy", size = "compact-xs" }: CopyProps) {
  const { isSaid, copy } = useCopying();
  return (
    <Button size={size} variant="default" aria-label={isSaid ? undefined : label} onClick={() => copy(text)}>
      {isSaid ? "Copied" : words}
    </Button>
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
