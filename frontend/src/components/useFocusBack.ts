import { useEffect, useState } from "react";

/** What has the focus; of an entry of a menu, which goes with the menu, the button that opened that. */
function opener(): Element | null {
  const now = document.activeElement;
  const menu = now?.closest("[role=menu]");
  return (menu && document.getElementById(menu.getAttribute("aria-labelledby") ?? "")) || now;
}

/**
 * Give the focus back, when this part goes, to what had it when the part came: for dialogs that
 * are drawn only while they are open.
 */
export function useFocusBack(): void {
  // Asked while it is drawn for the first time: an effect may come after the dialog took the focus.
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
