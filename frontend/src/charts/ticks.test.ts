import { expect, it } from "vitest";
import { momentName, momentTicks } from "@/charts/plot";

const at = (iso: string): number => Date.parse(iso) / 1000;
const HOUR = 3600;

it("formats times within a day, with seconds for close ticks", () => {
  const noon = at("2026-03-04T12:00:00Z");
  expect(momentTicks([noon, noon + HOUR], "UTC")).toEqual(["Mar 4 12:00", "13:00"]);
  expect(momentTicks([noon, noon + 10], "UTC")).toEqual(["Mar 4 12:00:00", "12:00:10"]);
});

it("shows dates at midnight, and only dates over a month", () => {
  const evening = at("2026-03-04T22:00:00Z");
  expect(momentTicks([evening, evening + 2 * HOUR, evening + 4 * HOUR], "UTC")).toEqual(["Mar 4 22:00", "Mar 5", "02:00"]);
  const begins = at("2026-03-01T00:00:00Z");
  expect(momentTicks([begins, begins + 240 * HOUR], "UTC")).toEqual(["Mar 1", "Mar 11"]);
});

it("uses the user's time zone", () => {
  const midnight = at("2026-03-05T00:00:00Z");
  expect(momentTicks([midnight, midnight + HOUR], "Asia/Tokyo")).toEqual(["Mar 5 09:00", "10:00"]);
});

it("shows the date only for spans of several days", () => {
  const moment = at("2026-03-04T22:15:30Z");
  expect(momentName(moment, 20 * HOUR, "UTC")).toBe("22:15:30");
  expect(momentName(moment, 240 * HOUR, "UTC")).toBe("Mar 4, 22:15:30");
});
