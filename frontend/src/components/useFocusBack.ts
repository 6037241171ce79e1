import { useEffect, useState } from "react";

/** The focused element; for an entry of a menu, which unmounts, the button that opened the menu. */
function opener(): Element | null {
  const now = document.activeElement;
  const menu = now?.closest("[role=menu]");
  return (menu && document.getElementById(menu.getAttribute("aria-labelledby") ?? "")) || now;
}

/**
 * Restore focus on unmount to the element that had it on mount, for dialogs that are mounted
 * only while open.
 */
export function useFocusBack(): void {
  // Read during the first render: an effect may run after the dialog took the focus.
  const [before] = useState(opener);
  useEffect(
    () => () => {
      setTimeout(() => {
        const isFree = document.activeElement === null || document.activeElement === document.body;
        if (isFree && before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
      });
    },
    [before],
  );
}
