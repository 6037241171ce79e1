import { Button } from "@mantine/core";
import { useTimeout } from "@mantine/hooks";
import { useState } from "react";
import { copyText } from "@/charts/save";

const SHOWN_MS = 1_500;

type CopyProps = {
  /** Text to copy; works over plain HTTP as well. */
  text: string;
  /** Names the copied text where a page has several of these buttons. */
  label?: string;
  words?: string;
  size?: "compact-xs" | "compact-sm";
};

/** Copy a text, with a flag that is true for a moment afterwards. */
export function useCopying(): { isSaid: boolean; copy: (text: string) => void } {
  const [isSaid, setSaid] = useState(false);
  const { start } = useTimeout(() => setSaid(false), SHOWN_MS);
  const copy = (text: string) => {
    copyText(text);
    setSaid(true);
    start();
  };
  return { isSaid, copy };
}

/** A button that copies a text and confirms it. */
export function Copy({ text, label, words = "Copy", size = "compact-xs" }: CopyProps) {
  const { isSaid, copy } = useCopying();
  return (
    <Button size={size} variant="default" aria-label={isSaid ? undefined : label} onClick={() => copy(text)}>
      {isSaid ? "Copied" : words}
    </Button>
  );
}

/** A command, or lines of code, to copy. */
export function Command({ text }: { text: string }) {
  return (
    <div className="command">
      <code>{text}</code>
      <Copy text={text} />
    </div>
  );
}

export { Command as Lines };
