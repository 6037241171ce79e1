/** Decide when a page reads anew what a topic said has changed. No React, no network. */

/** While a socket tells of news, what it tells of is asked for so many times as seldom besides. */
export const SELDOMER = 10;

type Timers = { now: () => number; later: (act: () => void, ms: number) => () => void };

const browser: Timers = {
  now: () => Date.now(),
  later: (act, ms) => {
    const timer = setTimeout(act, ms);
    return () => clearTimeout(timer);
  },
};

/**
 * Read at the first news at once, and then at most so often: news that come while one must wait are
 * read together when the time is over. What was known when the page opened is no news.
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

  /** Take the newest value of a part; undefined while there is none. */
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

  /** Read nothing more: the page is gone. */
  leave(): void {
    this.stop?.();
    this.stop = null;
  }
}

/** How often to ask without being told: seldom with a socket, for what only time changes; often without one. */
export function askEveryMs(mode: string, everyMs: number): number {
  return mode === "polling" ? everyMs : SELDOMER * everyMs;
}
