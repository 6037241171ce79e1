import { useCallback, useEffect, useRef, useState } from "react";

/** Open and close the palette: by ⌘K or Ctrl-K, also while somebody types, never above a dialog. */
export function usePalette() {
  const [isOpen, setOpen] = useState(false);
  const before = useRef<Element | null>(null);

  const open = useCallback(() => {
    before.current = document.activeElement;
    setOpen(true);
  }, []);
  /** Give the focus back first: a dialog that `then` opens gives it back to the same place. */
  const close = useCallback((then?: () => void) => {
    setOpen(false);
    setTimeout(() => {
      if (before.current instanceof HTMLElement && before.current.isConnected) before.current.focus({ preventScroll: true });
      then?.();
    });
  }, []);

  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || event.altKey || event.shiftKey || event.ctrlKey === event.metaKey) return;
      if (!isOpen && document.querySelector("[role=dialog]")) return;
      event.preventDefault();
      isOpen ? close() : open();
    };
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  }, [isOpen, open, close]);

  return { isOpen, open, close };
}
