/** Estimate the server's time from its messages. Pure: reads no clock. */

const FRAMES_KEPT = 12;

export class ServerClock {
  private frames: number[] = [];

  /** Take the timestamp of a frame; its latency makes the server's clock look slower. */
  hear(at: number, now: number): void {
    if (Number.isFinite(at)) this.frames = [...this.frames, at - now].slice(-FRAMES_KEPT);
  }

  /** Discard measurements, as after system sleep the clock may have changed. */
  forget(): void {
    this.frames = [];
  }

  /** Milliseconds to add to the local time. */
  get offset(): number {
    return this.frames.length > 0 ? Math.max(...this.frames) : 0;
  }
}
