import { useEffect, useState } from "react";

/** For an entry of a menu, which unmounts, the button that opened the menu; any other element itself. */
function lasting(element: Element | null): Element | null {
  const menu = element?.closest("[role=menu]");
  return (menu && document.getElementById(menu.getAttribute("aria-labelledby") ?? "")) || element;
}

let last: Element | null = null;
document.addEventListener("focusin", ({ target }) => {
  last = lasting(target as Element);
});

/** The focused element; else the last one: a menu may unmount before the code of the dialog that it opens has loaded. */
function opener(): Element | null {
  const now = document.activeElement;
  return now === null || now === document.body ? last : lasting(now);
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
