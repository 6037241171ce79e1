/** Estimate the server's time from its messages. Pure: reads no clock. */

/** Interval of clock requests; bounds the error from clock drift. */
export const ASK_EVERY_MS = 30_000;
const FRAMES_KEPT = 12;
const TRIPS_KEPT = 6;

/** `error` bounds the offset in both directions. All values in milliseconds. */
type Trip = { offset: number; error: number };

export class ServerClock {
  private frames: number[] = [];
  private trips: Trip[] = [];
  private askedAt: number | null = null;
  private lastAskedAt = -Infinity;

  /** Take the timestamp of a frame; its latency makes the server's clock look slower. */
  hear(at: number, now: number): void {
    if (Number.isFinite(at)) this.frames = [...this.frames, at - now].slice(-FRAMES_KEPT);
  }

  isDue(now: number): boolean {
    return now - this.lastAskedAt >= ASK_EVERY_MS;
  }

  ask(now: number): void {
    this.askedAt = this.lastAskedAt = now;
  }

  /** Take a clock response: the server read its clock between request and receipt. */
  answer(at: number, now: number): void {
    if (this.askedAt === null || !Number.isFinite(at)) return;
    const error = (now - this.askedAt) / 2;
    this.trips = [...this.trips, { offset: at - now + error, error }].slice(-TRIPS_KEPT);
    this.askedAt = null;
  }

  /** Discard measurements, as after system sleep the clock may have changed. */
  forget(): void {
    this.trips = [];
    this.askedAt = null;
    this.lastAskedAt = -Infinity;
  }

  /** Milliseconds to add to the local time. */
  get offset(): number {
    return this.best?.offset ?? (this.frames.length > 0 ? Math.max(...this.frames) : 0);
  }

  /** Maximum error of the offset; null before the first round trip. */
  get error(): number | null {
    return this.best?.error ?? null;
  }

  private get best(): Trip | undefined {
    return this.trips.reduce<Trip | undefined>((best, trip) => (best && best.error <= trip.error ? best : trip), undefined);
  }
}
