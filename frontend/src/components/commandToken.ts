/**
 * Hold the token that was made last in this tab, so that commands have it in them.
 *
 * In memory and nowhere else: it is gone with the page, as its text is shown only once.
 */

import { useSyncExternalStore } from "react";
import type { Scope } from "@/api/tokens";

/** What stands in a command as long as no token does. */
export const PLACE = "$ROLLDECK_TOKEN";

/** What a command needs of a token: one of this scope, good for this run. */
export type Needs = { scope: Scope; run?: string };
export type Made = { token: string; scopes: readonly string[]; run: string | null };

let made: Made | null = null;
const listeners = new Set<() => void>();

export function keepToken(token: Made): void {
  made = token;
  for (const listener of listeners) listener();
}

export function useMadeToken(): Made | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => made,
  );
}

/** Whether a token would be taken where a command shows it. */
export function isFit({ scopes, run }: Made, needs: Needs): boolean {
  return (scopes.includes(needs.scope) || scopes.includes("admin")) && (run === null || run === needs.run);
}

/** What `rolldeck` is told to do the same as this page: the words after `rolldeck`. */
export function deckCommand(words: string): string {
  return `ROLLDECK_URL=${location.origin} ROLLDECK_TOKEN=${PLACE} rolldeck ${words}`;
}

/** The command with the token in it, where it asks for one and the token is good for that. */
export function filled(command: string, needs: Needs | undefined, token: Made | null): string {
  return token && needs && isFit(token, needs) ? command.replaceAll(PLACE, token.token) : command;
}
