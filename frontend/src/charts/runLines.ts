/** One line per run, each with its own style. Pure. */

import type { Column } from "@/charts/columns";
import { lineStyleAt } from "@/charts/lineStyles";
import { smoothed } from "@/charts/lines";
import type { Line } from "@/charts/model";

type Wanted = {
  /** Weight of the moving average; 0 disables it. */
  smooth: number;
  /** Index of each run in the page's list, which selects its style; defaults to the local index. */
  places?: ReadonlyMap<string, number>;
};

/** One line per run; if smoothed, the samples remain as a thin line behind it. */
export function runLines(runs: string[], columns: Column[], { smooth, places }: Wanted): Line[] {
  const isAlone = runs.length === 1 && !places;
  const own = (i: number, values: Column): Line => {
    const name = runs[i] ?? "";
    // A single run needs no distinguishing style.
    return { label: name, values, ...(isAlone ? { role: 1 as const } : lineStyleAt(places?.get(name) ?? i)) };
  };
  return softened(
    columns.map((values, i) => own(i, values)),
    smooth,
  );
}

/** Lines smoothed by a weight, above their samples as thin lines; unchanged for a weight of 0. */
export function softened(lines: Line[], weight: number): Line[] {
  if (weight === 0) return lines;
  const samples = lines.map(({ label, values, role }): Line => ({ label, entry: label, values, role, thin: true }));
  const soft = lines.map(
    (line): Line => ({ ...line, label: `${line.label}, smoothed`, entry: line.label, values: smoothed(line.values, weight) }),
  );
  return [...samples, ...soft];
}
