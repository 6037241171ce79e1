import { describe, expect, it } from "vitest";
import type { WorkerRow } from "@/api/types";
import { medianSpeed, troubleOf, worstOf } from "@/pages/run/fleet/health";

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
const why = (given: Partial<WorkerRow>, now = NOW) => troubleOf(worker(0, given), { now, median: 100 }).why;

describe("worker health", () => {
  it("is good without problems", () => {
    expect(troubleOf(worker(0), { now: NOW, median: 100 })).toEqual({ why: "", badness: 0 });
  });

  it("expires with the heartbeat", () => {
    expect(why({}, NOW + 4_000)).toBe("");
    expect(why({}, NOW + 60_000)).toBe("No heartbeat for 1 min.");
  });

  it("names the problem of a running worker", () => {
    expect(why({ slots: [{ state: "failed" }, { state: "stepping" }] as WorkerRow["slots"] })).toBe("1 of 2 slots failed.");
    expect(why({ active_step: 4 })).toBe("Its active weights are 3 versions behind.");
    expect(why({ env_steps_per_second: 10 })).toBe("Its throughput is 10/s, 10 % of the fleet's median.");
    expect(why({ reason: "waiting for room in the buffer" })).toBe("waiting for room in the buffer");
  });

  it("is no problem for cordoned workers", () => {
    const cordoned = worker(0, { state: "stopped", cordon: "out", cordon_reason: "hot" });
    expect(troubleOf(cordoned, { now: NOW, median: 1 })).toEqual({ why: "hot", badness: 3 });
  });
});

describe("the workers of a fleet", () => {
  const fleet = [worker(0), worker(1, { state: "failed", reason: "no luck" }), worker(2, { active_step: 1 }), worker(3)];

  it("have a worst worker with a reason, or none", () => {
    expect(worstOf(fleet, NOW)).toMatchObject({ why: "no luck" });
    expect(worstOf([worker(0), worker(1)], NOW)).toBeNull();
    expect(worstOf([worker(0, { state: "failed" })], NOW)).toBeNull();
  });

  it("keep the pinned worker while none is worse", () => {
    const equals = [worker(0, { active_step: 1 }), worker(1, { active_step: 1 }), worker(2)];
    expect(worstOf(equals, NOW, 1)?.worker.index).toBe(1);
    expect(worstOf(fleet, NOW, 2)?.worker.index).toBe(1);
  });

  it("have a median of running workers only", () => {
    expect(medianSpeed([worker(0), worker(1, { state: "failed", env_steps_per_second: 0 }), worker(2, { env_steps_per_second: 50 })])).toBe(
      50,
    );
    expect(medianSpeed([])).toBe(0);
  });
});
