import { useEffect, useRef } from "react";

/** What Escape closes, the newest last: of a dialog above a drawer only the dialog. */
const open: { current: () => void }[] = [];

function listen(event: KeyboardEvent): void {
  if (event.key !== "Escape" || event.isComposing || !(event.target instanceof Element)) return;
  // A list of choices or a menu inside of it closes first, and by itself.
  if (event.target.closest("[role=menu], [data-mantine-stop-propagation=true]")) return;
  // Closed, it is handled: nothing below takes the same key as its own.
  event.stopPropagation();
  open.at(-1)?.current();
}

/** Close this part by Escape while it is there and nothing was opened above it. */
export function useEscape(onClose: () => void): void {
  const current = useRef(onClose);
  current.current = onClose;
  useEffect(() => {
    // Before what is inside: it closes its lists by the same key, and would be closed when asked later.
    if (open.length === 0) window.addEventListener("keydown", listen, { capture: true });
    open.push(current);
    return () => {
      open.splice(open.indexOf(current), 1);
      if (open.length === 0) window.removeEventListener("keydown", listen, { capture: true });
    };
  }, []);
}
