/** Keep drafts across an expired session, a reload or an accidental close. */

import { readSessionStorageValue, useSessionStorage } from "@mantine/hooks";

const keyOf = (key: string) => `rolldeck-draft:${key}`;

/** A draft in session storage; kept until it is sent or discarded. */
export function useDraft(key: string): [text: string, setText: (text: string) => void] {
  const [text, setText] = useSessionStorage({ key: keyOf(key), defaultValue: "", getInitialValueInEffect: false });
  return [text, setText];
}

export const hasDraft = (key: string): boolean => readSessionStorageValue({ key: keyOf(key), defaultValue: "" }) !== "";

export const deleteDraft = (key: string): void => sessionStorage.removeItem(keyOf(key));
