/**
 * The most recent token created in this tab, inserted into shown commands.
 *
 * Held in memory only: a token's text is shown once and is gone after a reload.
 */

import { useSyncExternalStore } from "react";
import type { Scope } from "@/api/tokens";

/** Placeholder in a command without a token. */
export const PLACE = "$ROLLDECK_TOKEN";

/** The token that a command needs: its scope and run. */
export type Needs = { scope: Scope; run?: string };
export type Made = { token: string; scopes: readonly string[]; run: string | null };

let made: Made | null = null;
const listeners = new Set<() => void>();

export function rememberToken(token: Made): void {
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

/** Whether a token satisfies a command's needs. */
export function isFit({ scopes, run }: Made, needs: Needs): boolean {
  return (scopes.includes(needs.scope) || scopes.includes("admin")) && (run === null || run === needs.run);
}

/** The shell command that calls the `rolldeck` CLI with these arguments. */
export function rolldeckCommand(words: string): string {
  return `ROLLDECK_URL=${location.origin} ROLLDECK_TOKEN=${PLACE} rolldeck ${words}`;
}

/** The command with the token inserted, if it needs one and the token fits. */
export function filled(command: string, needs: Needs | undefined, token: Made | null): string {
  return token && needs && isFit(token, needs) ? command.replaceAll(PLACE, token.token) : command;
}
