/** Names of the x axes for runs of some kinds. Pure. */

import type { MetricAxis } from "@/api/types";
import type { RunKind } from "@/runs/metricOrder";

type Amount = {
  /** The axis in a control. */
  title: string;
  /** One unit of it. */
  unit: string;
};

/** The unit in which runs of these kinds count their data. */
export function amountOf(kinds: readonly RunKind[]): Amount {
  const areFleets = new Set(kinds.map((kind) => kind === "fleet"));
  if (areFleets.size !== 1) return { title: "Data served", unit: "token or env step" };
  return areFleets.has(true) ? { title: "Env steps", unit: "env step" } : { title: "Tokens served", unit: "token" };
}

/** The label of an axis, in the singular. */
export function xLabelOf(axis: MetricAxis, kinds: readonly RunKind[]): string {
  return { step: "train step", time: "time", elapsed: "since the start of the run", amount: amountOf(kinds).unit }[axis];
}
