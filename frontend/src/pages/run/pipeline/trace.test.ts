import { expect, it } from "vitest";
import type { BatchRow, PolicyVersionRow, RunEvent, WeightSyncRow, WorkerRow } from "@/api/types";
import { type Sources, traceOf } from "./trace";

const AT = "2026-01-01T00:00:00Z";
const SECOND = 1e6;
const from = Date.parse(AT) * 1000;
const later = (seconds: number) => new Date(Date.parse(AT) + 1000 * seconds).toISOString();
const nothing: Sources = {
  run: { name: "r" },
  batches: [],
  versions: [],
  deliveries: [],
  events: [],
  workers: [],
  now: Date.parse(later(60)),
};
const shown = (sources: Partial<Sources>) => traceOf({ ...nothing, ...sources }).traceEvents.filter(({ ph }) => ph !== "M");

it("shows batches for their lease, open ones until now", () => {
  const batch = (given: object) =>
    ({
      ordinal: 1,
      trainer: "grpo",
      state: "confirmed",
      leased_at: AT,
      settled_at: later(5),
      epoch: 1,
      policy_step: 3,
      ...given,
    }) as BatchRow;
  const [done, out] = shown({ batches: [batch({}), batch({ ordinal: 2, trainer: null, settled_at: null })] });
  expect(done).toMatchObject({ name: "batch 1", ts: from, dur: 5 * SECOND, args: { weights: "1.3" } });
  expect(out).toMatchObject({ name: "batch 2", dur: 60 * SECOND });
  expect(out?.tid).not.toBe(done?.tid);
});

it("shows weight deliveries up to their last stage", () => {
  const version = { epoch: 1, step: 7, published_at: AT } as PolicyVersionRow;
  const delivery = { epoch: 1, step: 7, worker: 2, announced_at: later(1), staged_at: later(3), active_at: null } as WeightSyncRow;
  expect(shown({ versions: [version], deliveries: [delivery] }).map(({ name, ts, dur }) => [name, ts, dur])).toEqual([
    ["announced 1.7", from, SECOND],
    ["received 1.7", from + SECOND, 2 * SECOND],
  ]);
});

it("shows events as instants and a worker's mean step as spans", () => {
  const event = { message: "running → paused", at: AT, actor: "user:ada", reason: "lunch", level: "info", kind: "status" } as RunEvent;
  const timing = (mean_ms: number) => ({ count: 10, mean_ms, p95_ms: 2 * mean_ms });
  const worker = { index: 0, stages: { infer: timing(4), env_step: timing(6) } } as unknown as WorkerRow;
  const [moment, infer, step] = shown({ events: [event], workers: [worker] });
  expect(moment).toMatchObject({ ph: "i", ts: from, args: { reason: "lunch" } });
  expect(infer).toMatchObject({ name: "inference", dur: 4000 });
  expect(step?.ts).toBeCloseTo((infer?.ts ?? 0) + 4000, 0);
});

it("names every track", () => {
  const tracks = traceOf(nothing).traceEvents;
  expect(tracks.map(({ args }) => args?.name)).toContain("r: batches at trainers");
  expect(JSON.parse(JSON.stringify(traceOf(nothing)))).toHaveProperty("displayTimeUnit", "ms");
});
