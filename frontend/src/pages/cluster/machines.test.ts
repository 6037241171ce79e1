import { expect, it } from "vitest";
import type { MachineCordon, RayNode } from "@/api/deployment";
import { emptied, type Located, placesOf } from "@/pages/cluster/machines";

const node = (host: string, given: Partial<RayNode> = {}): RayNode => ({
  node: `${host}-id`,
  host,
  is_head: false,
  alive: true,
  cpus: 4,
  cpus_used: 1,
  gpus: 0,
  gpus_used: 0,
  memory_bytes: 8e9,
  memory_used_bytes: 0,
  object_store_bytes: 1e9,
  object_store_used_bytes: 0,
  ...given,
});

const located = (nodes: RayNode[], given: Partial<Located> = {}): Located => ({
  placements: [],
  cordons: [],
  web: [],
  workers: [],
  schedulers: [],
  ray: { nodes },
  ...given,
});

it("sorts head first and dead nodes last, with all workers", () => {
  const placements = [
    { node: "b", node_id: "", run: "pole", run_uid: "run_1", workers: 3 },
    { node: "elsewhere", node_id: "", run: "pole", run_uid: "run_1", workers: 1 },
  ];
  const places = placesOf(located([node("b"), node("gone", { alive: false }), node("a", { is_head: true })], { placements }));
  expect(places.map(({ host, runs }) => [host, runs.map(({ workers }) => workers)])).toEqual([
    ["a", []],
    ["b", [3]],
    ["elsewhere", [1]],
    ["gone", []],
  ]);
});

const cordon = (node: string, host: string): MachineCordon => ({
  node,
  host,
  reason: "its fan",
  cordoned_by: "user:ada",
  cordoned_at: "2026-03-01T12:00:00Z",
  workers: 1,
  managers: [],
});

it("distinguishes nodes of one host by Ray id", () => {
  const placements = [
    { node: "box", node_id: "south-id", run: "pole", run_uid: "run_1", workers: 2 },
    { node: "box", node_id: "left-id", run: "pole", run_uid: "run_1", workers: 1 },
  ];
  const places = placesOf(located([node("north", { host: "box" }), node("south", { host: "box" })], { placements }));
  expect(places.map(({ node: at, runs }) => [at?.node, runs.map(({ workers }) => workers)])).toEqual([
    ["north-id", []],
    ["south-id", [2]],
    [undefined, [1]],
  ]);
});

it("shows cordons, also of machines unknown to Ray", () => {
  const places = placesOf(located([node("a"), node("b")], { cordons: [cordon("b-id", "b"), cordon("old-id", "old")] }));
  expect(places.map(({ host, node: at, cordon: up }) => [host, at !== null, up?.reason])).toEqual([
    ["a", true, undefined],
    ["b", true, "its fan"],
    ["old", false, "its fan"],
  ]);
});

it("describes remaining workers and managers", () => {
  expect(emptied({ workers: 2, managers: [] })).toBe("2 workers remaining");
  expect(emptied({ workers: 1, managers: ["pole"] })).toBe("1 worker remaining; managers that stay: pole");
  expect(emptied({ workers: 0, managers: ["a", "b"] })).toBe("no workers remaining; managers that stay: a, b");
});

it("lists the processes of a machine once, also of one that is no node", () => {
  const process = (name: string, host: string) => ({
    name,
    host,
    pid: 1,
    started_at: "",
    confirmed_at: "",
    version: "",
    memory_bytes: null,
  });
  const given = { web: [process("w1", "box"), process("w2", "front")], schedulers: [process("beat", "box")] };
  const places = placesOf(located([node("north", { host: "box" }), node("south", { host: "box" })], given));
  expect(places.map(({ host, processes }) => [host, processes.map(({ row }) => row.name)])).toEqual([
    ["box", ["w1", "beat"]],
    ["box", []],
    ["front", ["w2"]],
  ]);
});
