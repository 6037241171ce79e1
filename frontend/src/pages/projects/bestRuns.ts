/** The best runs of a project with the live state and return of those that the live list contains. Pure. */

import type { ProjectRun } from "@/api/projects";
import type { RunRow } from "@/api/types";

type LiveRun = Pick<RunRow, "name" | "status" | "return_mean">;

export function bestRuns(listed: readonly ProjectRun[], live: readonly LiveRun[]): ProjectRun[] {
  const now = new Map(live.map((run) => [run.name, run]));
  return listed
    .map((run) => {
      const row = now.get(run.name);
      return row ? { ...run, status: row.status, return_mean: row.return_mean ?? run.return_mean } : run;
    })
    .toSorted((one, other) => other.return_mean - one.return_mean);
}
