/** Keep drafts across an expired session, a reload or an accidental close. */

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

/** A draft in session storage; kept until it is sent or discarded. */
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

export function deleteDraft(key: string): void {
  keep(key, "");
}
