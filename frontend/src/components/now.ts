/** One timer that updates every age on the page once a second. */

import { useSyncExternalStore } from "react";
import { live } from "@/live/live";

const RESOLUTION_MS = 1_000;
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;
let now = Date.now();

function beat(): void {
  now = live.serverNow();
  for (const listener of listeners) listener();
}

function watch(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(beat, RESOLUTION_MS);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

function read(): number {
  // Without a timer there are no subscribers and the value may be stale.
  const current = live.serverNow();
  if (timer === undefined && Math.abs(current - now) >= RESOLUTION_MS) now = current;
  return now;
}

/** The server's time in milliseconds, at a resolution of one second. */
export function useNow(): number {
  return useSyncExternalStore(watch, read);
}
