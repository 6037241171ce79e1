/** The address of the tab *Fleet*. Pure. */

import { processOf } from "@/pages/run/logs/logAddress";

export type FleetSearch = {
  /** The expanded worker. */
  worker?: number;
  /** The open log: `manager`, `2`, `2.1`. */
  log?: string;
};

export function logOf(value: unknown): string | undefined {
  const text = typeof value === "number" ? String(value) : value;
  return typeof text === "string" && processOf(text) ? text : undefined;
}
