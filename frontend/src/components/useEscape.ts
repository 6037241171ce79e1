import { useEffect, useRef } from "react";

/** Close handlers for Escape, the newest last: with a dialog above a drawer, only the dialog closes. */
const open: { current: () => void }[] = [];

function listen(event: KeyboardEvent): void {
  if (event.key !== "Escape" || event.isComposing || !(event.target instanceof Element)) return;
  // An open menu or listbox inside it handles Escape itself.
  if (event.target.closest("[role=menu], [data-mantine-stop-propagation=true]")) return;
  // Handled: elements below must not react to the same key.
  event.stopPropagation();
  open.at(-1)?.current();
}

/** Close this element on Escape while it is mounted and topmost. */
export function useEscape(onClose: () => void): void {
  const current = useRef(onClose);
  current.current = onClose;
  useEffect(() => {
    // In the capture phase: afterwards a closed list could no longer be detected.
    if (open.length === 0) window.addEventListener("keydown", listen, { capture: true });
    open.push(current);
    return () => {
      open.splice(open.indexOf(current), 1);
      if (open.length === 0) window.removeEventListener("keydown", listen, { capture: true });
    };
  }, []);
}
