import { expect, it } from "vitest";
import { replicasOf } from "./replicas";

const worker = (seconds: number, ...replicas: { address: string; version?: number[]; contact_seconds?: number; error?: string }[]) =>
  ({ heartbeat_at: `2026-01-01T00:00:${String(seconds).padStart(2, "0")}Z`, replicas }) as unknown as Parameters<
    typeof replicasOf
  >[0][number];

it("takes each replica from the worker that reached it last", () => {
  const rows = replicasOf([
    worker(30, { address: "gpu-2:8000", version: [1, 4], contact_seconds: 20, error: "connection refused" }),
    worker(
      30,
      { address: "gpu-2:8000", version: [1, 5], contact_seconds: 2 },
      { address: "gpu-1:8000", version: [1, 5], contact_seconds: 3 },
    ),
    worker(31, { address: "gpu-2:8000" }),
  ]);

  expect(rows).toEqual([
    { address: "gpu-1:8000", version: [1, 5], contactAt: "2026-01-01T00:00:27.000Z", error: "" },
    { address: "gpu-2:8000", version: [1, 5], contactAt: "2026-01-01T00:00:28.000Z", error: "" },
  ]);
});

it("keeps replicas that no worker has reached", () => {
  expect(replicasOf([worker(1), worker(1, { address: "gpu-1:8000", error: "timed out" })])).toEqual([
    { address: "gpu-1:8000", version: null, contactAt: null, error: "timed out" },
  ]);
});
