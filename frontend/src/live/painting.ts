/** Measure how long after its commit a change was painted. */

import type { ServerClock } from "@/live/clock";

/** `error`: how far it may be off, either way, for what is not known of the server's clock. */
export type Painted = { ms: number; errorMs: number };

export class Painting {
  private newest: number | null = null;
  private last: Painted | null = null;

  constructor(
    private readonly clock: ServerClock,
    private readonly now: () => number,
    private readonly afterPaint: (act: () => void) => void,
  ) {}

  /** A change was given to the page that was committed then, in server time; unknown ones do not count. */
  shows(committedAt: string | null): void {
    const committed = committedAt === null ? Number.NaN : Date.parse(committedAt);
    if (Number.isNaN(committed)) return;
    const isAwaited = this.newest !== null;
    this.newest = Math.max(committed, this.newest ?? committed);
    if (!isAwaited) this.afterPaint(() => this.painted());
  }

  /** Nobody sees the page now: what is painted when it comes back was not late. */
  forget(): void {
    this.newest = null;
  }

  /** The last that was measured. */
  read(): Painted | null {
    return this.last;
  }

  private painted(): void {
    const { error, offset } = this.clock;
    if (this.newest !== null && error !== null) {
      // Within what is not known of the clocks it may seem to come before its commit.
      this.last = { ms: Math.max(0, this.now() + offset - this.newest), errorMs: error };
    }
    this.newest = null;
  }
}
