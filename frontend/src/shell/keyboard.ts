/** Listen to single keys, but never while somebody types. */

import { useEffect, useRef } from "react";

export type Shortcuts = Record<string, () => void>;

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

const SEQUENCE_MS = 1_000;

/** Call a shortcut for a key (`?`) or two in a row (`g r`). */
export function useShortcuts(shortcuts: Shortcuts): void {
  const current = useRef(shortcuts);
  current.current = shortcuts;
  useEffect(() => {
    let first = "";
    let at = 0;
    const listen = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector("[role=dialog]")) return;
      const pair = Date.now() - at < SEQUENCE_MS ? `${first} ${event.key}` : "";
      const call = current.current[pair] ?? current.current[event.key];
      first = event.key;
      at = Date.now();
      if (!call) return;
      event.preventDefault();
      call();
    };
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  }, []);
}

/** Put the cursor into the page's filter, if it has one. */
export function focusFilter(): void {
  document.querySelector<HTMLInputElement>("[data-filter]")?.focus();
}

/** Put the focus on the link of the next row of the page's list, or of the one before; Enter opens it. */
export function moveRow(by: 1 | -1): void {
  const links = [...document.querySelectorAll<HTMLElement>("[data-row] [data-open]")];
  const now = links.findIndex((link) => link === document.activeElement);
  const next = now < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, now + by));
  links[next]?.focus();
}
