/** Measure the delay between a change's commit and its paint. */

import type { ServerClock } from "@/live/clock";

/** `errorMs`: uncertainty in both directions, from the estimate of the server's clock. */
export type Painted = { ms: number; errorMs: number };

export class Painting {
  private newest: number | null = null;
  private last: Painted | null = null;

  constructor(
    private readonly clock: ServerClock,
    private readonly now: () => number,
    private readonly afterPaint: (act: () => void) => void,
  ) {}

  /** A change with this commit time (server time) was rendered; null is ignored. */
  shows(committedAt: string | null): void {
    const committed = committedAt === null ? Number.NaN : Date.parse(committedAt);
    if (Number.isNaN(committed)) return;
    const isAwaited = this.newest !== null;
    this.newest = Math.max(committed, this.newest ?? committed);
    if (!isAwaited) this.afterPaint(() => this.painted());
  }

  /** The page is hidden: changes painted after its return were not late. */
  forget(): void {
    this.newest = null;
  }

  /** The last measurement. */
  read(): Painted | null {
    return this.last;
  }

  private painted(): void {
    const { error, offset } = this.clock;
    if (this.newest !== null && error !== null) {
      // Clock uncertainty can make the paint appear to precede its commit.
      this.last = { ms: Math.max(0, this.now() + offset - this.newest), errorMs: error };
    }
    this.newest = null;
  }
}
