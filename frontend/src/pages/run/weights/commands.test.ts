import { expect, test } from "vitest";
import type { PolicyVersionRow, WeightsCommands, WeightsProgress } from "@/api/types";
import {
  appliedOf,
  asOfFrame,
  deliveryOf,
  isHeldBack,
  pinEffect,
  pinnable,
  pinText,
  replicasOf,
  whyNotOrder,
  withNewest,
} from "@/pages/run/weights/commands";

const orders: WeightsCommands = { number: 3, pinned_step: 5, acting_step: 5, newest_step: 8, results: [], next: null };
const worker = (active: number, order: number, state = "running") =>
  ({ state, active_step: active, transfers: { order } }) as Parameters<typeof appliedOf>[1][number];
const version = (step: number, fields: Partial<PolicyVersionRow> = {}) =>
  ({ step, epoch: 1, has_file: true, ...fields }) as PolicyVersionRow;

test("a command is applied by workers with its number and version", () => {
  const workers = [worker(5, 3), worker(8, 2), worker(5, 2), worker(5, 1, "stopped")];
  expect(appliedOf(orders, workers)).toEqual({ there: 3, done: 1 });
});

test("the newest and the requested version are those of the frame of the workers", () => {
  const frame = { newest: version(10), acting_step: 5, order: 3 } as WeightsProgress;
  expect(asOfFrame(orders, frame)).toMatchObject({ newest_step: 10, acting_step: 5, pinned_step: 5 });
  expect(asOfFrame({ ...orders, pinned_step: null }, { ...frame, acting_step: 10 })).toMatchObject({ acting_step: 10, pinned_step: null });
  expect(asOfFrame(orders, { ...frame, order: 4, acting_step: 7 })).toMatchObject({ number: 4, acting_step: 7, pinned_step: 7 });
  expect(asOfFrame(orders, { ...frame, order: 4, acting_step: 10 })).toMatchObject({ number: 4, pinned_step: null });
});

test("an order that was just given is not replaced by an older frame", () => {
  expect(asOfFrame(orders, { newest: version(10), acting_step: 10, order: 2 } as WeightsProgress)).toEqual(orders);
  expect(asOfFrame(orders, undefined)).toEqual(orders);
});

test("a version that is not listed yet is first", () => {
  const listed = [version(10, { id: 2 }), version(8, { id: 1 })];
  expect(withNewest(listed, version(11, { id: 3 })).map(({ step }) => step)).toEqual([11, 10, 8]);
  expect(withNewest(listed, version(10, { id: 2 }))).toEqual(listed);
  expect(withNewest(listed, null)).toEqual(listed);
});

test("describes the requested version", () => {
  expect(pinText(orders)).toBe("Workers are pinned to version 5. The newest is 8, 3 ahead.");
  expect(pinText({ ...orders, pinned_step: 8 })).toBe("Workers are pinned to version 8. It is the newest.");
  expect(pinText({ ...orders, pinned_step: null })).toBe("Workers follow the newest version, 8.");
  expect(pinText({ pinned_step: null, newest_step: -2 })).toBe("No weights published yet.");
});

test("describes a pin's effect on staleness", () => {
  expect(pinEffect({ step: 8, newest: 8, most: 2 })).toMatch(
    /^As the trainer keeps publishing.*at most 2 versions behind: it is accepted up to version 10\./,
  );
  expect(pinEffect({ step: 5, newest: 8, most: 1 })).toMatch(
    /^Version 5 is already 3 behind, and data may be at most 1 version behind: all new data would be dropped/,
  );
  expect(pinEffect({ step: 5, newest: 8, most: null })).toMatch(/has no staleness limit/);
});

test("a pin holds back later versions of its epoch", () => {
  expect([4, 5, 6].map((step) => isHeldBack(version(step), orders, 1))).toEqual([false, false, true]);
  expect(isHeldBack(version(6, { epoch: 0 }), orders, 1)).toBe(false);
  expect(isHeldBack(version(6), { ...orders, pinned_step: null }, 1)).toBe(false);
  expect(isHeldBack(version(6), undefined, 1)).toBe(false);
});

test("only stored versions can be pinned; language runs never go back", () => {
  const all = [version(8), version(5), version(4), version(3, { has_file: false }), version(9, { epoch: 0 })];
  const steps = (kind: "fleet" | "language") => pinnable(all, { run: { kind, epoch: 1 }, orders }).map(({ step }) => step);
  expect(steps("fleet")).toEqual([8, 5, 4]);
  expect(steps("language")).toEqual([8, 5]);
});

test("explains why commands are disabled", () => {
  const run = { status: "running", kind: "fleet", policy_step: 1 } as const;
  expect(whyNotOrder(run, true)).toBe("");
  expect(whyNotOrder({ ...run, status: "stopped" }, true)).toBe("The run is stopped: it has no workers.");
  expect(whyNotOrder({ ...run, kind: "outside" }, true)).toBe("External environments fetch weights themselves.");
  expect(whyNotOrder({ ...run, policy_step: -2 }, true)).toBe("No weights published yet.");
  expect(whyNotOrder(run, false)).toBe("Requires the operator role.");
});

const published = { epoch: 1, step: 3, published_at: "2026-01-01T00:00:00Z" };
const loading = (worker: number, seconds: number | null, step = 3) => {
  const active_at = seconds === null ? null : new Date(Date.parse(published.published_at) + 1000 * seconds).toISOString();
  return { epoch: 1, step, worker, announced_at: null, staged_at: null, active_at };
};

test("counts from publication and names the slowest worker", () => {
  const rows = [loading(0, 3), loading(1, 9), loading(0, 0, 2)];
  expect(deliveryOf(published, rows)).toEqual({ reported: 2, loaded: 2, seconds: 9, slowest: 1 });
});

test("counts workers that never loaded a version", () => {
  expect(deliveryOf(published, [loading(0, null), loading(1, 2)])).toEqual({ reported: 2, loaded: 1, seconds: 2, slowest: null });
  expect(deliveryOf(published, [])).toEqual({ reported: 0, loaded: 0, seconds: null, slowest: null });
});

test("names no slowest worker within the report interval", () => {
  expect(deliveryOf(published, [loading(0, 2), loading(1, 2.9)])).toMatchObject({ seconds: 2.9, slowest: null });
  expect(deliveryOf(published, [loading(0, 2), loading(1, 3)])).toMatchObject({ seconds: 3, slowest: 1 });
});

const reaching = (seconds: number, ...replicas: { address: string; version?: number[]; contact_seconds?: number; error?: string }[]) =>
  ({ heartbeat_at: `2026-01-01T00:00:${String(seconds).padStart(2, "0")}Z`, replicas }) as unknown as Parameters<
    typeof replicasOf
  >[0][number];

test("takes each replica from the worker that reached it last", () => {
  const rows = replicasOf([
    reaching(30, { address: "gpu-2:8000", version: [1, 4], contact_seconds: 20, error: "connection refused" }),
    reaching(
      30,
      { address: "gpu-2:8000", version: [1, 5], contact_seconds: 2 },
      { address: "gpu-1:8000", version: [1, 5], contact_seconds: 3 },
    ),
    reaching(31, { address: "gpu-2:8000" }),
  ]);

  expect(rows).toEqual([
    { address: "gpu-1:8000", version: [1, 5], contactAt: "2026-01-01T00:00:27.000Z", error: "" },
    { address: "gpu-2:8000", version: [1, 5], contactAt: "2026-01-01T00:00:28.000Z", error: "" },
  ]);
});

test("keeps replicas that no worker has reached", () => {
  expect(replicasOf([reaching(1), reaching(1, { address: "gpu-1:8000", error: "timed out" })])).toEqual([
    { address: "gpu-1:8000", version: null, contactAt: null, error: "timed out" },
  ]);
});
