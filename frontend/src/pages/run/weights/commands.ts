/** Describe weight orders: the requested version, its progress, and the effect of a pin. Pure. */

import { TAKES_OPERATOR } from "@/api/session";
import type { PolicyVersionRow, RunSummary, WeightSyncRow, WeightsCommands, WeightsProgress, WorkerRow } from "@/api/types";
import { counted, number } from "@/format";
import { isOver } from "@/theme/chips";

const GONE = new Set(["stopped", "failed", "respawning"]);

/** Why no weight order is possible now; empty if possible. */
export function whyNotOrder(run: Pick<RunSummary, "status" | "kind" | "policy_step">, mayOperate: boolean): string {
  if (run.kind === "outside") return "External environments fetch weights themselves.";
  if (isOver(run.status)) return `The run is ${run.status}: it has no workers.`;
  if (run.policy_step < -1) return "No weights published yet.";
  return mayOperate ? "" : TAKES_OPERATOR;
}

type Acting = Pick<WorkerRow, "state" | "active_step" | "transfers">;

/** The number of workers, and of those that use the requested version. */
export function appliedOf({ number: order, acting_step }: Pick<WeightsCommands, "number" | "acting_step">, workers: Acting[]) {
  const there = workers.filter(({ state }) => !GONE.has(state));
  const done = there.filter(({ active_step, transfers }) => active_step === acting_step && transfers.order >= order);
  return { there: there.length, done: done.length };
}

/** The orders as of the live frame, which also contains the workers; unchanged if the frame is older. */
export function asOfFrame(orders: WeightsCommands, frame: WeightsProgress | null | undefined): WeightsCommands {
  if (!frame?.newest || frame.order < orders.number) return orders;
  const { newest, acting_step, order } = frame;
  // The list of orders is read after the frame.
  const pinned = order === orders.number ? orders.pinned_step : acting_step === newest.step ? null : acting_step;
  return { ...orders, number: order, pinned_step: pinned, newest_step: newest.step, acting_step };
}

/** The listed versions, with the newest of the live frame if it is not listed yet. */
export function withNewest(versions: PolicyVersionRow[], newest: PolicyVersionRow | null | undefined): PolicyVersionRow[] {
  return !newest || versions.some(({ id }) => id === newest.id) ? versions : [newest, ...versions];
}

/** The requested version as a sentence. */
export function pinText({ pinned_step, newest_step }: Pick<WeightsCommands, "pinned_step" | "newest_step">): string {
  if (newest_step < -1) return "No weights published yet.";
  if (pinned_step === null) return `Workers follow the newest version, ${number(newest_step)}.`;
  const back = newest_step - pinned_step;
  return `Workers are pinned to version ${number(pinned_step)}. ${back > 0 ? `The newest is ${number(newest_step)}, ${number(back)} ahead.` : "It is the newest."}`;
}

/** The effect of a pin under the staleness limit; shown before and during the pin. */
export function pinEffect({ step, newest, most }: { step: number; newest: number; most: number | null }): string {
  if (most === null) return `Data of version ${number(step)} is always accepted: this run has no staleness limit.`;
  const last = step + most;
  const limit = `at most ${counted(most, "version")} behind`;
  if (last < newest)
    return `Version ${number(step)} is already ${number(newest - step)} behind, and data may be ${limit}: all new data would be dropped and the trainer would wait. Raise the staleness limit first.`;
  return `As the trainer keeps publishing, data of version ${number(step)} becomes staler. It may be ${limit}: it is accepted up to version ${number(last)}. After that it is dropped and counted, and the trainer waits until you unpin or raise the limit.`;
}

/** Whether a pin prevents the distribution of a version. */
export function isHeldBack(version: Pick<PolicyVersionRow, "epoch" | "step">, orders: WeightsCommands | undefined, epoch: number): boolean {
  return orders?.pinned_step !== null && orders !== undefined && version.epoch === epoch && version.step > orders.pinned_step;
}

/** The versions that can be pinned: stored, of this epoch, and for language runs not older than the current one. */
export function pinnable(
  versions: PolicyVersionRow[],
  { run, orders }: { run: Pick<RunSummary, "kind" | "epoch">; orders: WeightsCommands },
): PolicyVersionRow[] {
  return versions.filter(
    ({ epoch, step, has_file }) => epoch === run.epoch && has_file && (run.kind !== "language" || step >= orders.acting_step),
  );
}

/** Workers report about once a second: smaller differences are not ordered. */
export const REPORT_SECONDS = 1;

/** The numbers of workers that reported a version and loaded it, the seconds until the last one did, and which that was if one is apart. */
export function deliveryOf(version: Pick<PolicyVersionRow, "epoch" | "step" | "published_at">, deliveries: WeightSyncRow[]) {
  const reports = deliveries.filter(({ epoch, step }) => epoch === version.epoch && step === version.step);
  const loaded = reports
    .flatMap(({ worker, active_at: at }) =>
      at === null ? [] : [{ worker, seconds: Math.max(0, (Date.parse(at) - Date.parse(version.published_at)) / 1000) }],
    )
    .sort((one, other) => other.seconds - one.seconds);
  const [last, first] = [loaded[0], loaded.at(-1)];
  const isApart = last && first && last.seconds - first.seconds >= REPORT_SECONDS;
  return { reported: reports.length, loaded: loaded.length, seconds: last?.seconds ?? null, slowest: isApart ? last.worker : null };
}

/** An engine of the run's inference server. */
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
