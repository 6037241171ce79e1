import { useHotkeys } from "@mantine/hooks";
import { useCallback, useEffect, useRef, useState } from "react";

/** The text after a key pressed before the input had focus; null for other keys. */
export function typedAfter(typed: string, key: string): string | null {
  if (key === "Backspace") return typed.slice(0, -1);
  return [...key].length === 1 ? typed + key : null;
}

/** Open and close the palette with ⌘K or Ctrl-K, also while typing, but not above a dialog. */
export function usePalette() {
  const [isOpen, setOpen] = useState(false);
  const [typed, setTyped] = useState("");
  const [isEntered, setEntered] = useState(false);
  const before = useRef<Element | null>(null);

  const open = useCallback(() => {
    before.current = document.activeElement;
    setTyped("");
    setEntered(false);
    setOpen(true);
  }, []);
  const type = useCallback((text: string) => {
    setTyped(text);
    setEntered(false);
  }, []);
  /** Open the first result when the search has ended. */
  const enter = useCallback(() => setEntered(true), []);
  /** Restore the focus first, so that a dialog opened by `then` restores it to the same element. */
  const close = useCallback((then?: () => void) => {
    setOpen(false);
    setTimeout(() => {
      // A filter replaces its input when the code of its completions has loaded.
      const isReplaced = before.current?.isConnected === false && before.current.matches("[data-filter]");
      const target = isReplaced ? document.querySelector("[data-filter]") : before.current;
      if (target instanceof HTMLElement && target.isConnected) target.focus({ preventScroll: true });
      then?.();
    });
  }, []);

  const toggle = () => {
    if (isOpen) close();
    else if (!document.querySelector("[role=dialog]")) open();
  };
  useHotkeys([["mod+K", toggle]], []);

  // The palette's code may still be loading, and its input receives focus shortly after rendering.
  useEffect(() => {
    if (!isOpen) return;
    const keep = (event: KeyboardEvent) => {
      const box = document.querySelector("[data-palette]");
      if (event.target === box || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape" && !box) close();
      if (event.key === "Enter" && !(event.target instanceof Element && event.target.closest("[role=dialog]"))) {
        event.preventDefault();
        event.stopPropagation();
        return enter();
      }
      if (typedAfter("", event.key) === null) return;
      event.preventDefault();
      event.stopPropagation();
      setTyped((text) => typedAfter(text, event.key) ?? text);
    };
    window.addEventListener("keydown", keep, true);
    return () => window.removeEventListener("keydown", keep, true);
  }, [isOpen, close, enter]);

  return { isOpen, open, close, typed, type, isEntered, enter };
}
