import { expect, it } from "vitest";
import type { MachineCordon, RayNode } from "@/api/deployment";
import { emptied, placesOf } from "@/pages/cluster/topology";

const node = (host: string, given: Partial<RayNode> = {}): RayNode => ({
  ...{ node: `${host}-id`, host, is_head: false, alive: true, cpus: 4, cpus_used: 1, gpus: 0, gpus_used: 0 },
  ...{ memory_bytes: 8e9, memory_used_bytes: 0, object_store_bytes: 1e9, object_store_used_bytes: 0 },
  ...given,
});

it("sorts head first and dead nodes last, with all workers", () => {
  const places = placesOf(
    [node("b"), node("gone", { alive: false }), node("a", { is_head: true })],
    [
      { node: "b", node_id: "", run: "pole", workers: 3 },
      { node: "elsewhere", node_id: "", run: "pole", workers: 1 },
    ],
  );
  expect(places.map(({ host, runs }) => [host, runs.map(({ workers }) => workers)])).toEqual([
    ["a", []],
    ["b", [3]],
    ["elsewhere", [1]],
    ["gone", []],
  ]);
});

const cordon = (node: string, host: string): MachineCordon => ({
  ...{ node, host, reason: "its fan", cordoned_by: "user:ada", cordoned_at: "2026-03-01T12:00:00Z", workers: 1, managers: [] },
});

it("distinguishes nodes of one host by Ray id", () => {
  const places = placesOf(
    [node("north", { host: "box" }), node("south", { host: "box" })],
    [
      { node: "box", node_id: "south-id", run: "pole", workers: 2 },
      { node: "box", node_id: "left-id", run: "pole", workers: 1 },
    ],
  );
  expect(places.map(({ node: at, runs }) => [at?.node, runs.map(({ workers }) => workers)])).toEqual([
    ["north-id", []],
    ["south-id", [2]],
    [undefined, [1]],
  ]);
});

it("shows cordons, also of machines unknown to Ray", () => {
  const places = placesOf([node("a"), node("b")], [], [cordon("b-id", "b"), cordon("old-id", "old")]);
  expect(places.map(({ host, node: at, cordon: up }) => [host, at !== null, up?.reason])).toEqual([
    ["a", true, undefined],
    ["b", true, "its fan"],
    ["old", false, "its fan"],
  ]);
});

it("describes remaining workers and managers", () => {
  expect(emptied({ workers: 2, managers: [] })).toBe("2 workers remaining");
  expect(emptied({ workers: 1, managers: ["pole"] })).toBe("1 worker remaining; the manager of pole stays");
  expect(emptied({ workers: 0, managers: ["a", "b"] })).toBe("no workers remaining; the managers of a, b stay");
});
