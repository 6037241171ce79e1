/** Rate limiter for refetches after live changes. No React, no network. */

/** Factor by which the fallback refetch slows down while a socket reports changes. */
export const LIVE_FACTOR = 10;

type Timers = { now: () => number; later: (act: () => void, ms: number) => () => void };

const browser: Timers = {
  now: () => Date.now(),
  later: (act, ms) => {
    const timer = setTimeout(act, ms);
    return () => clearTimeout(timer);
  },
};

/**
 * Refetch on the first change, then at a limited rate: changes within the interval are combined
 * into one refetch at its end. The initial value is not a change.
 */
export class Rereading {
  private known: unknown = undefined;
  private readAt = Number.NEGATIVE_INFINITY;
  private stop: (() => void) | null = null;

  constructor(
    private readonly read: () => void,
    private readonly atMostEveryMs: number,
    private readonly timers: Timers = browser,
  ) {}

  /** Take the newest value of a part; undefined if there is none. */
  hear(value: unknown): void {
    if (value === undefined || value === this.known) return;
    const isFirst = this.known === undefined;
    this.known = value;
    if (isFirst || this.stop) return;
    const wait = Math.max(0, this.readAt + this.atMostEveryMs - this.timers.now());
    this.stop = this.timers.later(() => {
      this.stop = null;
      this.readAt = this.timers.now();
      this.read();
    }, wait);
  }

  /** Stop refetching: the page is unmounted. */
  leave(): void {
    this.stop?.();
    this.stop = null;
  }
}

/** Fallback refetch interval: long with a socket, for time-dependent values; short without one. */
export function askEveryMs(mode: string, everyMs: number): number {
  return mode === "polling" ? everyMs : LIVE_FACTOR * everyMs;
}
