import { expect, it } from "vitest";
import type { RayNode } from "@/api/deck";
import { foretold } from "@/pages/cluster/growth";
import { placesOf } from "@/pages/cluster/topology";

const node = (host: string, given: Partial<RayNode> = {}): RayNode => ({
  ...{ node: `${host}-id`, host, is_head: false, alive: true, cpus: 4, cpus_used: 1, gpus: 0, gpus_used: 0 },
  ...{ memory_bytes: 8e9, memory_used_bytes: 0, object_store_bytes: 1e9, object_store_used_bytes: 0 },
  ...given,
});

it("puts the head first and the gone last, and leaves no worker out", () => {
  const places = placesOf(
    [node("b"), node("gone", { alive: false }), node("a", { is_head: true })],
    [
      { node: "b", run: "pole", workers: 3 },
      { node: "elsewhere", run: "pole", workers: 1 },
    ],
  );
  expect(places.map(({ host, runs }) => [host, runs.map(({ workers }) => workers)])).toEqual([
    ["a", []],
    ["b", [3]],
    ["elsewhere", [1]],
    ["gone", []],
  ]);
});

it("foretells in words, and says so when it cannot", () => {
  expect(foretold({ state: "unknown", per_hour: null, seconds_left: null, at: null }, 3)).toContain("Too early to tell");
  expect(foretold({ state: "steady", per_hour: 5, seconds_left: null, at: null }, 90)).toContain("does not fill");
  expect(foretold({ state: "below", per_hour: null, seconds_left: 0, at: null }, 90)).toContain("too little room");
  expect(foretold({ state: "shrinks", per_hour: -1e9, seconds_left: 7200, at: "2026-03-01T12:00:00Z" }, 90)).toContain("2 h 00");
});
