/** Values of an expression along the lines of its metrics. Pure. */

import { interpolated } from "@/charts/columns";
import type { Expression } from "@/charts/expression";
import { type Buckets, drawn } from "@/charts/lines";

type NamedLine = Buckets & { run: string; name: string; samples: number };
export type Evaluated = {
  /** One line per run, with a point wherever one of its metrics has a sample. */
  lines: (Buckets & { run: string })[];
  /** Metrics without samples in all runs. */
  absent: string[];
};

/** The expression of each run; between two samples a metric lies on a straight line, elsewhere it has no value. */
export function evaluated({ names, evaluate }: Expression, runs: readonly string[], found: readonly NamedLine[]): Evaluated {
  const lines = runs.map((run) => {
    const own = found.filter((line) => line.run === run && names.includes(line.name));
    const { x, last } = drawn(own);
    const columns = new Map(own.map(({ name }, i) => [name, interpolated(x, last[i] ?? [])]));
    const values = x.map((_, i) => evaluate((name) => columns.get(name)?.[i] ?? null));
    return { run, x, last: values, min: values, max: values, mean: values, is_exact: true };
  });
  const absent = names.filter((name) => !found.some((line) => line.name === name && line.samples > 0));
  return { lines, absent };
}
