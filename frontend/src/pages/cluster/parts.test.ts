import { expect, it } from "vitest";
import type { Part, ProcessRow } from "@/api/deployment";
import { type ClusterParts, healthOf, isHeard, jobName, share } from "./parts";

const AT = "2026-03-01T12:00:00Z";
const part = (state: Part["state"]): Part => ({ state, confirmed_at: AT, problem: "", took_ms: 1 });
const process = (secondsAgo: number): ProcessRow => ({
  name: "here:1",
  host: "here",
  pid: 1,
  started_at: AT,
  confirmed_at: new Date(Date.parse(AT) - 1000 * secondsAgo).toISOString(),
  version: "",
  memory_bytes: null,
});
const cluster = (given: Partial<ClusterParts>): ClusterParts => ({
  at: AT,
  process_word_seconds: 15,
  web: [process(3)],
  workers: [],
  schedulers: [process(3)],
  jobs: part("up"),
  ray: part("absent"),
  database: part("up"),
  broker: part("up"),
  storage: part("up"),
  ...given,
});

it("reports nothing as healthy without the server", () => {
  expect(healthOf(cluster({}), true)).toMatchObject({ tone: "held", text: expect.stringContaining("does not answer") });
});

it("reports health, also without Ray", () => {
  expect(healthOf(cluster({}), false).text).toBe("All parts are healthy.");
});

it("lists down parts before silent ones", () => {
  const found = healthOf(cluster({ broker: part("down"), jobs: part("down"), ray: part("unknown") }), false);
  expect(found.tone).toBe("bad");
  expect(found.text).toBe("Down: broker and background workers. No recent heartbeats: Ray cluster.");
});

it("distinguishes busy workers from missing ones", () => {
  const jobs = part("unknown");
  expect(healthOf(cluster({ jobs, workers: [process(3)] }), false)).toMatchObject({
    tone: "held",
    text: "Slow to respond: background workers.",
  });
  expect(healthOf(cluster({ jobs, workers: [] }), false).text).toBe("No recent heartbeats: background workers.");
});

it("counts silent processes and reports a missing scheduler", () => {
  expect(healthOf(cluster({ web: [process(3), process(60)] }), false)).toMatchObject({
    tone: "held",
    text: "No recent heartbeats: 1 process.",
  });
  expect(healthOf(cluster({ schedulers: [] }), false).text).toBe("Down: scheduler.");
});

it("tolerates two missed heartbeats", () => {
  expect([37, 38].map((seconds) => isHeard(process(seconds), cluster({})))).toEqual([true, false]);
});

it("has no share of an unknown or zero total", () => {
  expect([share(1, 4), share(9, 4), share(null, 4), share(1, 0)]).toEqual([0.25, 1, null, null]);
});

it("formats a job's name", () => {
  expect(jobName("buffer.jobs.audit_ledgers")).toBe("audit ledgers");
});
