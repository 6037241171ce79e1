import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderHook } from "@testing-library/react";
import { expect, it, vi } from "vitest";
import { useRunsRefresh } from "@/api/runs";
import type { RunRow } from "@/api/types";

const BEFORE = [{ id: 1, status: "running", served_steps: 3 }] as RunRow[];
const CHANGES: [string, RunRow[], boolean, number][] = [
  ["a value of the usual columns", [{ ...BEFORE[0], served_steps: 4 } as RunRow], false, 0],
  ["a value that a column, the filter or the order needs", [{ ...BEFORE[0], served_steps: 4 } as RunRow], true, 1],
  ["a state", [{ ...BEFORE[0], status: "paused" } as RunRow], false, 1],
  ["a new run", [...BEFORE, { id: 2, status: "starting" } as RunRow], false, 1],
  ["a run that goes", [], false, 1],
];

it.each(CHANGES)("refreshes the list of runs when needed: %s", (_, after, dependsOnValues, times) => {
  const queries = new QueryClient();
  const reads = vi.spyOn(queries, "invalidateQueries");
  const page = renderHook(({ live }) => useRunsRefresh(live, dependsOnValues), {
    initialProps: { live: BEFORE },
    wrapper: ({ children }) => <QueryClientProvider client={queries}>{children}</QueryClientProvider>,
  });
  page.rerender({ live: after });
  expect(reads).toHaveBeenCalledTimes(times);
});
