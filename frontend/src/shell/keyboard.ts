/** Single-key shortcuts, ignored while the user types. */

import { useEffect, useRef } from "react";

type Shortcuts = Record<string, () => void>;

function isTyping(target: EventTarget | null): boolean {
  // Checkboxes and radio buttons take no text.
  if (target instanceof HTMLInputElement) return !/^(checkbox|radio|button|submit)$/.test(target.type);
  return target instanceof HTMLElement && (target.isContentEditable || /^(TEXTAREA|SELECT)$/.test(target.tagName));
}

const SEQUENCE_MS = 1_000;

/** Listeners, the innermost last; it takes precedence. */
const listeners: { current: Shortcuts }[] = [];
let first = "";
let at = 0;

function listen(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (document.querySelector("[role=dialog]")) return;
  // A menu handles its own keys, and may already be unmounted.
  if (event.target instanceof Element && event.target.closest("[role=menu], [role=listbox]")) return;
  const pair = Date.now() - at < SEQUENCE_MS ? `${first} ${event.key}` : "";
  first = event.key;
  at = Date.now();
  const call = ownerOf(pair) ?? ownerOf(event.key);
  if (!call) return;
  event.preventDefault();
  call();
}

function ownerOf(keys: string): (() => void) | undefined {
  return listeners.findLast(({ current }) => current[keys])?.current[keys];
}

/** Register shortcuts for a key (`?`) or two in sequence (`g r`); inner listeners take precedence. */
export function useShortcuts(shortcuts: Shortcuts): void {
  const current = useRef(shortcuts);
  current.current = shortcuts;
  useEffect(() => {
    if (listeners.length === 0) window.addEventListener("keydown", listen);
    listeners.push(current);
    return () => {
      listeners.splice(listeners.indexOf(current), 1);
      if (listeners.length === 0) window.removeEventListener("keydown", listen);
    };
  }, []);
}

/** Focus the page's filter, if it has one. */
export function focusFilter(): void {
  document.querySelector<HTMLInputElement>("[data-filter]")?.focus();
}

/** Focus the link of the next or previous row of the page's list; Enter opens it. */
export function moveRow(by: 1 | -1): void {
  const links = [...document.querySelectorAll<HTMLElement>("[data-row] [data-open]")];
  const now = links.indexOf(document.activeElement as HTMLElement);
  const next = now < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, now + by));
  links[next]?.focus();
}

const CONTROLS = "a, button, input, label, select, summary, textarea, [role=button], [role=menuitem], [role=dialog]";

/** A click on a row opens it, as its link does; controls in it and selected text keep their meaning. */
export function openRow(event: MouseEvent): void {
  const target = event.target as Element;
  const row = target.closest("tr[data-opens]");
  if (!row || event.defaultPrevented || target.closest(CONTROLS) || window.getSelection()?.toString()) return;
  const { ctrlKey, metaKey, shiftKey } = event;
  const click = new MouseEvent("click", { bubbles: true, cancelable: true, ctrlKey, metaKey, shiftKey });
  row.querySelector("[data-open]")?.dispatchEvent(click);
}
