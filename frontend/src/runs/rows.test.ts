import { expect, it } from "vitest";
import type { ListedRun } from "@/api/runs";
import type { RunRow } from "@/api/types";
import { COLUMNS, columnsOf, wordOf } from "@/runs/columns";
import { addressOf, restingIds, shownRuns, unknownIds } from "@/runs/rows";

const run = (id: number, status = "running") => ({ id, name: `run-${id}`, status }) as unknown as ListedRun;

it("lists each run once with live data", () => {
  const shown = shownRuns([run(2), run(1), run(2)], [run(1, "paused") as unknown as RunRow], { 2: { queued: 7 } as never }, false);
  expect(shown.map(({ id, status, queued }) => [id, status, queued])).toEqual([
    [2, "running", 7],
    [1, "paused", undefined],
  ]);
});

it("marks runs without current data after a failed request", () => {
  const live = [run(1) as unknown as RunRow];
  const unread = (hasFailed: boolean) => shownRuns([run(1), run(2)], live, {}, hasFailed).map(({ isUnread }) => isUnread);
  expect(unread(true)).toEqual([false, true]);
  expect(unread(false)).toEqual([false, false]);
});

it("requests only missing summaries", () => {
  expect(unknownIds([run(1), run(2)], [run(1) as unknown as RunRow])).toEqual([2]);
  const live = [{ ...run(1), queued: 3 }, run(2, "completed")] as unknown as RunRow[];
  expect(restingIds([run(1), run(2), run(3)], live)).toEqual([2]);
});

it("keeps only non-default columns in the URL", () => {
  const usual = COLUMNS.filter(({ isShown }) => isShown).map(({ id }) => id);
  expect(wordOf(usual)).toBeUndefined();
  expect(columnsOf(wordOf(["queue", "state"])).map(({ id }) => id)).toEqual(["state", "queue"]);
});

it("addresses an archived run by its name and id", () => {
  expect(addressOf({ id: 7, name: "a", archived_at: null })).toBe("a");
  expect(addressOf({ id: 7, name: "a", archived_at: "2026-01-01T00:00:00Z" })).toBe("a--7");
});
