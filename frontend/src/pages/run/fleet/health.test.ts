import { describe, expect, it } from "vitest";
import type { WorkerRow } from "@/api/types";
import { healthOf, medianSpeed, workerHealth, worstOf } from "@/pages/run/fleet/health";

const AT = "2026-03-01T12:00:00Z";
const NOW = Date.parse(AT);
const worker = (index: number, given: Partial<WorkerRow> = {}): WorkerRow =>
  ({
    index,
    state: "running",
    heartbeat_at: AT,
    reason: "",
    restarts: 0,
    announced_step: 7,
    active_step: 7,
    env_steps_per_second: 100,
    cordon: "",
    cordon_reason: "",
    slots: [],
    ...given,
  }) as WorkerRow;
const word = (given: Partial<WorkerRow>, now = NOW) => healthOf(worker(0, given), { now, median: 100 }).word;

describe("worker health", () => {
  it("is good without problems", () => {
    expect(healthOf(worker(0), { now: NOW, median: 100 })).toMatchObject({ word: "well", why: "", badness: 0 });
  });

  it("expires with the heartbeat", () => {
    expect(word({}, NOW + 4_000)).toBe("well");
    expect(word({}, NOW + 60_000)).toBe("no heartbeat");
  });

  it("names the problem of a running worker", () => {
    expect(word({ slots: [{ state: "failed" }, { state: "stepping" }] as WorkerRow["slots"] })).toBe("slots failed");
    expect(word({ active_step: 4 })).toBe("weights behind");
    expect(word({ env_steps_per_second: 10 })).toBe("slow");
    expect(word({ reason: "waiting for room in the buffer" })).toBe("waiting");
  });

  it("is no problem for cordoned workers", () => {
    expect(healthOf(worker(0, { state: "stopped", cordon: "out", cordon_reason: "hot" }), { now: NOW, median: 1 })).toMatchObject({
      word: "cordoned",
      why: "hot",
    });
  });
});

describe("the workers of a fleet", () => {
  const fleet = [worker(0), worker(1, { state: "failed", reason: "no luck" }), worker(2, { active_step: 1 }), worker(3)];

  it("are sorted worst first, then by index", () => {
    expect(workerHealth(fleet, NOW).map((one) => one.worker.index)).toEqual([1, 2, 0, 3]);
  });

  it("have a worst worker with a reason, or none", () => {
    expect(worstOf(workerHealth(fleet, NOW))).toMatchObject({ why: "no luck" });
    expect(worstOf(workerHealth([worker(0), worker(1)], NOW))).toBeNull();
    expect(worstOf(workerHealth([worker(0, { state: "failed" })], NOW))).toBeNull();
  });

  it("keep the pinned worker while none is worse", () => {
    const equals = workerHealth([worker(0, { active_step: 1 }), worker(1, { active_step: 1 }), worker(2)], NOW);
    expect(worstOf(equals, 1)?.worker.index).toBe(1);
    expect(worstOf(workerHealth(fleet, NOW), 2)?.worker.index).toBe(1);
  });

  it("have a median of running workers only", () => {
    expect(medianSpeed([worker(0), worker(1, { state: "failed", env_steps_per_second: 0 }), worker(2, { env_steps_per_second: 50 })])).toBe(
      50,
    );
    expect(medianSpeed([])).toBe(0);
  });
});
