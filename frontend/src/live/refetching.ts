/** Rate limiter for refetches after live changes. No React, no network. */

/** Factor by which the fallback refetch slows down while a socket reports changes. */
const LIVE_FACTOR = 10;

/**
 * Refetch on the first change, then at a limited rate: changes within the interval are combined
 * into one refetch at its end. The initial value is not a change.
 */
export class Rereading {
  private known: unknown = undefined;
  private readAt = Number.NEGATIVE_INFINITY;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly read: () => void,
    private readonly atMostEveryMs: number,
  ) {}

  /** Take the newest value of a part; undefined if there is none. */
  hear(value: unknown): void {
    if (value === undefined || value === this.known) return;
    const isFirst = this.known === undefined;
    this.known = value;
    if (isFirst || this.timer !== undefined) return;
    const act = () => {
      this.timer = undefined;
      this.readAt = Date.now();
      this.read();
    };
    this.timer = setTimeout(act, Math.max(0, this.readAt + this.atMostEveryMs - Date.now()));
  }

  /** Stop refetching: the page is unmounted. */
  leave(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }
}

/** Fallback refetch interval: long with a socket, for time-dependent values; short without one. */
export const askEveryMs = (mode: string, everyMs: number): number => (mode === "polling" ? everyMs : LIVE_FACTOR * everyMs);
