/** Validate the limits form and build the request. Pure. */

import type { NewLimits } from "@/api/runs";
import type { RunDetail } from "@/api/types";

type NumberLimit = "off_policy_tolerance" | "max_staleness" | "lease_seconds";
export type Limits = Pick<RunDetail, NumberLimit | "on_second_registration">;
/** Form values; empty staleness means no limit. */
type TypedLimits = { [name in NumberLimit]: number | string } & Pick<Limits, "on_second_registration">;

export function typedOf({ off_policy_tolerance, max_staleness, lease_seconds, on_second_registration }: Limits): TypedLimits {
  return { off_policy_tolerance, max_staleness: max_staleness ?? "", lease_seconds, on_second_registration };
}

/** The changed limits; null if nothing changed or a value is invalid. */
export function changesOf(now: Limits, typed: TypedLimits): Omit<NewLimits, "reason"> | null {
  const { off_policy_tolerance, max_staleness, lease_seconds } = typed;
  if (typeof off_policy_tolerance !== "number" || typeof lease_seconds !== "number") return null;
  const staleness = typeof max_staleness === "number" ? max_staleness : null;
  const changes: Omit<NewLimits, "reason"> = {};
  if (off_policy_tolerance !== now.off_policy_tolerance) changes.off_policy_tolerance = off_policy_tolerance;
  if (staleness !== now.max_staleness) changes.max_staleness = staleness;
  if (lease_seconds !== now.lease_seconds) changes.lease_seconds = lease_seconds;
  if (typed.on_second_registration !== now.on_second_registration) changes.on_second_registration = typed.on_second_registration;
  return Object.keys(changes).length > 0 ? changes : null;
}
