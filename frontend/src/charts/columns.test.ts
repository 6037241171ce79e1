import { expect, it } from "vitest";
import type { EpisodeRow } from "@/api/types";
import { episodeColumns } from "./columns";

const row = (id: number, extra: Partial<EpisodeRow> = {}): EpisodeRow => ({
  ...({} as EpisodeRow),
  id,
  at: new Date(id * 1000).toISOString(),
  environment: "e",
  worker: 0,
  count: 1,
  return_mean: id,
  return_min: id,
  return_max: id,
  length_mean: id,
  length_max: id,
  terminated: 1,
  truncated: 0,
  aborted: 0,
  policy_step: id,
  env_steps_total: id * 100,
  served_steps: 0,
  recent_return_mean: id,
  ...extra,
});

it("merges rows at the same x by weight and keeps spikes", () => {
  const columns = episodeColumns(
    [
      row(1, { count: 3, return_mean: 10, return_min: 2, return_max: 20 }),
      row(2, { count: 1, return_mean: 50, return_min: 50, return_max: 50 }),
    ],
    "served_steps",
  );
  expect(columns.x).toEqual([0]);
  expect(columns.mean).toEqual([20]);
  expect(columns.min).toEqual([2]);
  expect(columns.max).toEqual([50]);
});

it("sorts x and omits empty windows", () => {
  const columns = episodeColumns([row(3), row(1), row(2, { count: 0 })], "env_steps");
  expect(columns.x).toEqual([100, 300]);
  expect(episodeColumns([row(3), row(1)], "time").x).toEqual([1, 3]);
});
