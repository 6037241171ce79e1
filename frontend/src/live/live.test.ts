import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { askEveryMs, Rereading } from "@/live/live";

let reads: number;
let page: Rereading;

beforeEach(() => {
  vi.useFakeTimers();
  reads = 0;
  page = new Rereading(() => (reads += 1), 2_000);
});
afterEach(() => vi.useRealTimers());

it("does not refetch for initial or unchanged values", () => {
  page.hear(undefined);
  page.hear(1);
  page.hear(1);
  vi.advanceTimersByTime(60_000);
  expect(reads).toBe(0);
});

it("refetches immediately on the first change", () => {
  page.hear(1);
  page.hear(2);
  vi.advanceTimersByTime(0);
  expect(reads).toBe(1);
});

it("limits the rate on a busy topic without missing the last change", () => {
  for (let value = 0; value < 41; value += 1) {
    page.hear(value);
    vi.advanceTimersByTime(250);
  }
  // Ten seconds of news four times a second: one read at once, then one each two seconds.
  expect(reads).toBeGreaterThanOrEqual(5);
  expect(reads).toBeLessThanOrEqual(6);
  const before = reads;
  page.hear("last");
  vi.advanceTimersByTime(2_000);
  expect(reads).toBe(before + 1);
});

it("does not refetch after unmount", () => {
  page.hear(1);
  page.hear(2);
  page.leave();
  vi.advanceTimersByTime(60_000);
  expect(reads).toBe(0);
});

it("polls rarely with a socket, often without", () => {
  expect(askEveryMs("polling", 3_000)).toBe(3_000);
  for (const mode of ["live", "lagging", "held", "connecting"]) expect(askEveryMs(mode, 3_000)).toBe(30_000);
});
