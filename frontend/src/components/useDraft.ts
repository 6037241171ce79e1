/** Keep what somebody was writing over a page that goes: a session that ended, a reload, a slip of the hand. */

import { useState } from "react";

const KEY = "rolldeck-draft:";

function read(key: string): string {
  try {
    return sessionStorage.getItem(KEY + key) ?? "";
  } catch {
    return "";
  }
}

function keep(key: string, text: string): void {
  try {
    if (text) sessionStorage.setItem(KEY + key, text);
    else sessionStorage.removeItem(KEY + key);
  } catch {
    // Without storage it is there as long as its box is.
  }
}

/** A text, in this tab, until it is forgotten: when what it was written for is done, or given up. */
export function useDraft(key: string): [text: string, setText: (text: string) => void] {
  const [text, setText] = useState(() => read(key));
  const change = (next: string) => {
    setText(next);
    keep(key, next);
  };
  return [text, change];
}

export function hasDraft(key: string): boolean {
  return read(key) !== "";
}

export function forgetDraft(key: string): void {
  keep(key, "");
}
