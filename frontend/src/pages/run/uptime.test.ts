import { expect, it } from "vitest";
import { uptimeText } from "@/pages/run/uptime";

const AT = "2026-03-01T12:00:00Z";
const later = (seconds: number) => new Date(Date.parse(AT) + seconds * 1000).toISOString();

it("counts from the last start, including pauses", () => {
  const now = Date.parse(later(7500));
  expect(uptimeText({ status: "running", started_at: AT, status_changed_at: AT }, now)).toBe("up 2 h 05");
  expect(uptimeText({ status: "paused", started_at: AT, status_changed_at: later(60) }, now)).toBe("up 2 h 05");
});

it("stops when the run has ended", () => {
  expect(uptimeText({ status: "completed", started_at: AT, status_changed_at: later(600) }, Date.parse(later(9e5)))).toBe("ran for 10 min");
});

it("is null for a run that never started", () => {
  expect(uptimeText({ status: "draft", started_at: null, status_changed_at: AT }, Date.parse(later(60)))).toBeNull();
});
