/** Summarize the health of the deployment's parts. Pure. */

import type { Cluster, Part, ProcessRow } from "@/api/deployment";
import { ageSeconds, counted } from "@/format";

/** A process with two missed heartbeats is not counted as alive. */
const WORDS_MISSED = 2.5;

export function processProofSeconds(cluster: Pick<Cluster, "process_word_seconds">): number {
  return WORDS_MISSED * cluster.process_word_seconds;
}

/** Whether a process sent a heartbeat recently, by the server's clock. */
export function isHeard(process: ProcessRow, cluster: Pick<Cluster, "at" | "process_word_seconds">): boolean {
  const age = ageSeconds(process.confirmed_at, Date.parse(cluster.at));
  return age !== null && age <= processProofSeconds(cluster);
}

const NAMES = {
  database: "database",
  broker: "broker",
  jobs: "background workers",
  ray: "Ray cluster",
  storage: "payload storage",
} as const;
type PartName = keyof typeof NAMES;
/** The fields that the summary depends on. */
export type ClusterParts = Pick<Cluster, "at" | "process_word_seconds" | "web" | "schedulers"> & { workers: ProcessRow[] } & Record<
    PartName,
    Part
  >;

type ClusterHealth = { tone: "good" | "held" | "bad"; sign: string; text: string };
const LIST = new Intl.ListFormat("en");

/** One sentence: healthy, or the parts that are not; `isOutdated` if the server does not answer. */
export function healthOf(cluster: ClusterParts, isOutdated: boolean): ClusterHealth {
  if (isOutdated) return { tone: "held", sign: "?", text: "The server does not answer: the state of its parts is unknown." };
  const isAlive = (process: ProcessRow) => isHeard(process, cluster);
  // Workers that send heartbeats may not have responded yet.
  const isSlow = (part: PartName) => part === "jobs" && cluster.jobs.state === "unknown" && cluster.workers.some(isAlive);
  const named = (isIn: (part: PartName) => boolean): string[] =>
    Object.entries(NAMES).flatMap(([part, name]) => (isIn(part as PartName) ? [name] : []));
  const silent = [...cluster.web, ...cluster.workers, ...cluster.schedulers].filter((process) => !isAlive(process));
  const down = [...named((part) => cluster[part].state === "down"), ...(cluster.schedulers.some(isAlive) ? [] : ["scheduler"])];
  const unsure = [
    ...named((part) => cluster[part].state === "unknown" && !isSlow(part)),
    ...(silent.length > 0 ? [counted(silent.length, "process")] : []),
  ];
  const lists: [string, string[]][] = [
    ["Down", down],
    ["No recent heartbeats", unsure],
    ["Slow to respond", named(isSlow)],
  ];
  const text = lists.flatMap(([title, parts]) => (parts.length > 0 ? [`${title}: ${LIST.format(parts)}.`] : [])).join(" ");
  if (text === "") return { tone: "good", sign: "●", text: "All parts are healthy." };
  return { tone: down.length > 0 ? "bad" : "held", sign: down.length > 0 ? "✕" : "▲", text };
}

/** The used share, 0 to 1; null if the total is unknown or zero. */
export function share(used: number | null | undefined, total: number | null | undefined): number | null {
  if (used === null || used === undefined || !total) return null;
  return Math.min(1, Math.max(0, used / total));
}

/** The last component of a job's name; the full name is in the tooltip. */
export function jobName(name: string): string {
  return (name.split(".").at(-1) ?? name).replaceAll("_", " ");
}
