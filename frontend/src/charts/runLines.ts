/** Draw a line for each run, each with a look of its own. Pure. */

import type { Column } from "@/charts/columns";
import { smoothed } from "@/charts/lines";
import { lookAt } from "@/charts/looks";
import type { Line } from "@/charts/plot";

type Wanted = {
  /** Weight of the moving average; 0 for none. */
  smooth: number;
  /** Where each run stands among all of the page, which is what its look comes from; here if absent. */
  places?: ReadonlyMap<string, number>;
};

/** One line a run; where they are smoothed the samples stay, thin and behind. */
export function runLines(runs: string[], columns: Column[], { smooth, places }: Wanted): Line[] {
  const isAlone = runs.length === 1 && !places;
  const own = (i: number, values: Column): Line => {
    const name = runs[i] ?? "";
    // A run alone needs nothing to be told apart by.
    return { label: name, values, ...(isAlone ? { role: 1 as const } : lookAt(places?.get(name) ?? i)) };
  };
  const lines = columns.map((values, i) => own(i, values));
  if (smooth === 0) return lines;
  const samples = lines.map(({ label, values, role }): Line => ({ label, entry: label, values, role, thin: true }));
  const soft = lines.map(
    (line): Line => ({ ...line, label: `${line.label}, smoothed`, entry: line.label, values: smoothed(line.values, smooth) }),
  );
  return [...samples, ...soft];
}
