import { expect, it } from "vitest";
import type { FleetPart, QueueAnswer, RunSummary } from "@/api/types";
import { drainText, following, newer, pendingRequest, uptimeText, VERBS } from "./verbs";

const run = (status: RunSummary["status"], at = "2026-01-01T00:00:00Z"): RunSummary =>
  ({ id: 1, kind: "fleet", status, status_changed_at: at }) as RunSummary;
const fleet = (observed: string): FleetPart =>
  ({ desired: "running", observed, observed_at: null, reason: "", workers: [] }) as unknown as FleetPart;

it("shows a request until the fleet applied it", () => {
  expect(pendingRequest(run("paused"), fleet("running"), true)).toBe("requested: paused; the fleet is still running");
  expect(pendingRequest(run("paused"), fleet("paused"), true)).toBeNull();
  expect(pendingRequest(run("running"), fleet("unknown"), true)).not.toBeNull();
  expect(pendingRequest(run("starting"), fleet("none"), true)).toBe("requested: starting; no fleet yet");
});

it("shows no request while starting, with an unknown state, or without a fleet", () => {
  expect(pendingRequest(run("starting"), fleet("running"), true)).toBeNull();
  expect(pendingRequest(run("starting"), fleet("starting"), true)).toBeNull();
  expect(pendingRequest(run("paused"), fleet("running"), false)).toBeNull();
  expect(pendingRequest({ ...run("paused"), kind: "outside" }, fleet("none"), true)).toBeNull();
  expect(pendingRequest(run("completed"), fleet("stopped"), true)).toBeNull();
  expect(pendingRequest(run("paused"), undefined, true)).toBeNull();
});

it("uses the newer of response and live data", () => {
  const old = run("running", "2026-01-01T00:00:00.100Z");
  const fresh = run("paused", "2026-01-01T00:00:00.200Z");
  expect(newer(old, fresh)).toBe(fresh);
  expect(newer(fresh, old)).toBe(fresh);
  expect(newer(undefined, fresh)).toBe(fresh);
  expect(newer({ ...old, id: 2 }, fresh)?.id).toBe(2);
});

it("confirms irreversible verbs", () => {
  const destroying = Object.entries(VERBS).filter(([, look]) => look.destroys);
  expect(destroying.map(([verb]) => verb)).toEqual(["drain", "stop", "kill", "reset"]);
});

it("counts workers that applied the status", () => {
  const workers = [{ state: "paused" }, { state: "running" }, { state: "paused" }] as const;
  expect(following("paused", [...workers])).toBe("2 of 3 workers paused");
  expect(following("paused", [{ state: "running" }])).toBe("0 of 1 worker paused");
  expect(following("paused", [])).toBe("");
  expect(following("queued", [...workers])).toBe("");
});

it("describes the remaining drain", () => {
  // 6 queued groups of 4 sequences and 2 leased ones
  const queue = {
    unit: "sequences",
    queued: 6,
    queued_sequences: 24,
    leased: 2,
    leased_sequences: 8,
    trained_per_second: 4,
  } as QueueAnswer;
  expect(drainText({ ...run("draining"), batch_size: 16 }, queue)).toBe("32 sequences to serve, 2 batches; about 8 s at the current rate");
  const idle = { ...queue, trained_per_second: null };
  expect(drainText({ ...run("draining"), batch_size: null }, idle)).toBe("32 sequences to serve; no recent batches");
  expect(drainText(run("running"), queue)).toBe("");
});

it("requires the name for destructive verbs", () => {
  expect(
    Object.entries(VERBS)
      .filter(([, look]) => look.typed)
      .map(([verb]) => verb),
  ).toEqual(["stop", "kill", "reset"]);
});

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
