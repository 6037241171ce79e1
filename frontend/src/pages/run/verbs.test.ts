import { expect, it } from "vitest";
import type { FleetPart, LedgerPart, RunSummary } from "@/api/types";
import { ACTIONS } from "@/runs/actions";
import { drainText, newer, pendingRequest, uptimeText } from "./verbs";

const run = (status: RunSummary["status"], at = "2026-01-01T00:00:00Z"): RunSummary =>
  ({ id: 1, kind: "fleet", status, status_changed_at: at }) as RunSummary;
const fleet = (observed: string, desired = "paused"): FleetPart =>
  ({ desired, observed, observed_at: null, reason: "", workers: [] }) as unknown as FleetPart;

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

it("shows no request while the fleet of a paused run probes an outage", () => {
  expect(pendingRequest(run("paused"), fleet("running", "running"), true)).toBeNull();
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
  const destroying = Object.entries(ACTIONS).filter(([, look]) => look.destroys);
  expect(destroying.map(([verb]) => verb)).toEqual(["drain", "stop", "kill", "reset", "archive", "delete"]);
});

it("counts workers that applied the status", () => {
  const of = (...states: string[]) => ({ ...fleet("running"), workers: states.map((state) => ({ state })) }) as FleetPart;
  expect(pendingRequest(run("paused"), of("paused", "running", "paused"), true)).toBe("requested: paused; 2 of 3 workers paused");
  expect(pendingRequest(run("paused"), of("running"), true)).toBe("requested: paused; 0 of 1 worker paused");
});

it("describes the remaining drain", () => {
  const ledger = { fragments: { queued: 24, waiting: 0, leased: 8 } } as unknown as LedgerPart;
  expect(drainText({ ...run("draining"), batch_size: 16 }, ledger)).toBe("32 fragments to serve, 2 batches");
  expect(drainText({ ...run("draining"), batch_size: null }, ledger)).toBe("32 fragments to serve");
  expect(drainText(run("running"), ledger)).toBe("");
});

it("requires the name for destructive verbs", () => {
  expect(
    Object.entries(ACTIONS)
      .filter(([, look]) => look.typed)
      .map(([verb]) => verb),
  ).toEqual(["stop", "kill", "reset", "delete"]);
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
