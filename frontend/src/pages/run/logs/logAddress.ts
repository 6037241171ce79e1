/** URL form of a process whose log is open: `manager`, `2` for worker 2, `2.1` for its slot 1. Pure. */

import type { FleetPlace } from "@/pages/run/fleet/api";

export function textOf({ worker, slot }: FleetPlace): string {
  if (worker === null) return "manager";
  return slot === null ? String(worker) : `${worker}.${slot}`;
}

/** Null if invalid. */
export function processOf(text: string): FleetPlace | null {
  if (text === "manager") return { worker: null, slot: null };
  const found = /^(\d+)(?:\.(\d+))?$/.exec(text);
  return found ? { worker: Number(found[1]), slot: found[2] === undefined ? null : Number(found[2]) } : null;
}
