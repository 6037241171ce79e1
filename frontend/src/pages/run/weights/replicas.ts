/** Replicas of a run's inference server, merged over its workers. */

import type { WorkerRow } from "@/api/types";

export type Replica = {
  address: string;
  version: [number, number] | null;
  /** ISO time of the last contact of any worker; null if there was none. */
  contactAt: string | null;
  /** Reason of the last failed attempt; empty if it succeeded. */
  error: string;
};

/** One row per address, sorted, as the worker with the latest contact has reported it. */
export function replicasOf(workers: readonly Pick<WorkerRow, "heartbeat_at" | "replicas">[]): Replica[] {
  const byAddress = new Map<string, Replica>();
  for (const { heartbeat_at, replicas } of workers) {
    for (const { address, version, contact_seconds, error } of replicas) {
      const contactAt = contact_seconds == null ? null : new Date(Date.parse(heartbeat_at) - contact_seconds * 1000).toISOString();
      const known = byAddress.get(address);
      if (known && (known.contactAt ?? "") >= (contactAt ?? "")) continue;
      byAddress.set(address, { address, version: (version as [number, number] | null | undefined) ?? null, contactAt, error: error ?? "" });
    }
  }
  return [...byAddress.values()].toSorted((a, b) => a.address.localeCompare(b.address));
}
