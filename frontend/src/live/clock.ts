/** Reckon the server's time from what it says. Pure: no clock of its own. */

/** How often the server is asked, so that the answer stays true while clocks drift apart. */
export const ASK_EVERY_MS = 30_000;
const FRAMES_KEPT = 12;
const TRIPS_KEPT = 6;

/** `error`: how far the offset may be off, either way. All in milliseconds. */
type Trip = { offset: number; error: number };

export class ServerClock {
  private frames: number[] = [];
  private trips: Trip[] = [];
  private askedAt: number | null = null;
  private lastAskedAt = -Infinity;

  /** A frame that says when it was made: its way here makes the server's clock look slower. */
  hear(at: number, now: number): void {
    if (Number.isFinite(at)) this.frames = [...this.frames, at - now].slice(-FRAMES_KEPT);
  }

  isDue(now: number): boolean {
    return now - this.lastAskedAt >= ASK_EVERY_MS;
  }

  ask(now: number): void {
    this.askedAt = this.lastAskedAt = now;
  }

  /** The server's answer was made at some time between question and now. */
  answer(at: number, now: number): void {
    if (this.askedAt === null || !Number.isFinite(at)) return;
    const error = (now - this.askedAt) / 2;
    this.trips = [...this.trips, { offset: at - now + error, error }].slice(-TRIPS_KEPT);
    this.askedAt = null;
  }

  /** A machine that slept may have another time: round trips before say nothing. */
  forget(): void {
    this.trips = [];
    this.askedAt = null;
    this.lastAskedAt = -Infinity;
  }

  /** What to add to this machine's time. */
  get offset(): number {
    return this.best?.offset ?? (this.frames.length > 0 ? Math.max(...this.frames) : 0);
  }

  /** How far that may be off; null before the first round trip. */
  get error(): number | null {
    return this.best?.error ?? null;
  }

  private get best(): Trip | undefined {
    return this.trips.reduce<Trip | undefined>((best, trip) => (best && best.error <= trip.error ? best : trip), undefined);
  }
}
