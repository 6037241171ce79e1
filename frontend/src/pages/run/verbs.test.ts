import { expect, it } from "vitest";
import type { FleetPart, RunSummary } from "@/api/types";
import { arrival, newer, VERBS } from "./verbs";

const run = (status: RunSummary["status"], at = "2026-01-01T00:00:00Z"): RunSummary =>
  ({ id: 1, kind: "fleet", status, status_changed_at: at }) as RunSummary;
const fleet = (observed: string): FleetPart =>
  ({ desired: "running", observed, observed_at: null, reason: "", workers: [] }) as unknown as FleetPart;

it("shows a request as requested until the fleet has it", () => {
  expect(arrival(run("paused"), fleet("running"))).toMatchObject({ state: "requested" });
  expect(arrival(run("paused"), fleet("paused"))).toMatchObject({ state: "applied" });
  expect(arrival(run("running"), fleet("unknown"))).toMatchObject({ state: "requested" });
});

it("says nothing of runs without a fleet, or that want nothing", () => {
  expect(arrival({ ...run("paused"), kind: "outside" }, fleet("none"))).toBeNull();
  expect(arrival(run("completed"), fleet("stopped"))).toBeNull();
  expect(arrival(run("paused"), undefined)).toBeNull();
});

it("believes whatever is newer, the verb's answer or the live page", () => {
  const old = run("running", "2026-01-01T00:00:00.100Z");
  const fresh = run("paused", "2026-01-01T00:00:00.200Z");
  expect(newer(old, fresh)).toBe(fresh);
  expect(newer(fresh, old)).toBe(fresh);
  expect(newer(undefined, fresh)).toBe(fresh);
  expect(newer({ ...old, id: 2 }, fresh)?.id).toBe(2);
});

it("confirms whatever cannot be taken back", () => {
  const destroying = Object.entries(VERBS).filter(([, look]) => look.destroys);
  expect(destroying.map(([verb]) => verb)).toEqual(["stop", "kill"]);
});
