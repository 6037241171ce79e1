import { describe, expect, it } from "vitest";
import { ASK_EVERY_MS, ServerClock } from "./clock";

/** Ask at `asked`; the answer is made `there` ms later and comes `back` ms after that. */
function trip(clock: ServerClock, asked: number, there: number, back: number, ahead: number): void {
  clock.ask(asked);
  clock.answer(asked + there + ahead, asked + there + back);
}

describe("the server's clock", () => {
  it("is accurate to half of the shortest round trip", () => {
    const clock = new ServerClock();
    trip(clock, 0, 400, 20, 7_000);
    expect(clock.error).toBe(210);
    trip(clock, 1_000, 3, 9, 7_000);
    trip(clock, 2_000, 90, 10, 7_000);
    expect(clock.error).toBe(6);
    expect(Math.abs(clock.offset - 7_000)).toBeLessThanOrEqual(6);
  });

  it("uses the least delayed frame before the first round trip", () => {
    const clock = new ServerClock();
    expect(clock.offset).toBe(0);
    clock.hear(5_000, 100);
    clock.hear(5_080, 110);
    clock.hear(Number.NaN, 110);
    expect([clock.offset, clock.error]).toEqual([4_970, null]);
  });

  it("follows clock changes at the next request", () => {
    const clock = new ServerClock();
    expect(clock.isDue(0)).toBe(true);
    trip(clock, 0, 1, 1, 0);
    expect(clock.isDue(ASK_EVERY_MS - 1)).toBe(false);
    expect(clock.isDue(ASK_EVERY_MS)).toBe(true);
    for (let asked = 1; asked <= 6; asked += 1) trip(clock, asked * ASK_EVERY_MS, 50, 50, 90_000);
    expect(clock.offset).toBe(90_000);
  });

  it("ignores unsolicited responses", () => {
    const clock = new ServerClock();
    clock.answer(1_000, 0);
    trip(clock, 0, 5, 5, 0);
    clock.forget();
    expect(clock.error).toBeNull();
    clock.answer(9_000, 0);
    expect([clock.offset, clock.error]).toEqual([0, null]);
  });
});
