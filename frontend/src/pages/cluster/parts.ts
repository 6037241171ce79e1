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

type PartName = "database" | "broker" | "jobs" | "ray" | "storage";
/** The fields that the summary depends on. */
export type ClusterParts = Pick<Cluster, "at" | "process_word_seconds" | "web" | "schedulers"> & { workers: ProcessRow[] } & Record<
    PartName,
    Part
  >;

const NAMES: [PartName, string][] = [
  ["database", "database"],
  ["broker", "broker"],
  ["jobs", "background workers"],
  ["ray", "Ray cluster"],
  ["storage", "payload storage"],
];

export type ClusterHealth = { tone: "good" | "held" | "bad"; sign: string; text: string };

function list(words: string[]): string {
  return words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : (words[0] ?? "");
}

/** Whether a part has not responded yet although its processes send heartbeats. */
function isSlow(part: PartName, cluster: ClusterParts): boolean {
  return part === "jobs" && cluster.jobs.state === "unknown" && cluster.workers.some((process) => isHeard(process, cluster));
}

/** One sentence: healthy, or the parts that are not; `isOutdated` if the server does not answer. */
export function healthOf(cluster: ClusterParts, isOutdated: boolean): ClusterHealth {
  if (isOutdated) return { tone: "held", sign: "?", text: "The server does not answer: the state of its parts is unknown." };
  const parts: [string, Part["state"]][] = NAMES.map(([key, name]) => [name, cluster[key].state]);
  const down = parts.filter(([, state]) => state === "down").map(([name]) => name);
  const unsure = NAMES.filter(([key]) => cluster[key].state === "unknown" && !isSlow(key, cluster)).map(([, name]) => name);
  const slow = NAMES.filter(([key]) => isSlow(key, cluster)).map(([, name]) => name);
  const silent = [...cluster.web, ...cluster.workers, ...cluster.schedulers].filter((process) => !isHeard(process, cluster));
  if (silent.length > 0) unsure.push(counted(silent.length, "process", "processes"));
  if (!cluster.schedulers.some((process) => isHeard(process, cluster))) down.push("scheduler");
  const sentences = [
    down.length > 0 ? `Down: ${list(down)}.` : "",
    unsure.length > 0 ? `No recent heartbeats: ${list(unsure)}.` : "",
    slow.length > 0 ? `Slow to respond: ${list(slow)}.` : "",
  ].filter(Boolean);
  if (sentences.length === 0) return { tone: "good", sign: "●", text: "All parts are healthy." };
  return { tone: down.length > 0 ? "bad" : "held", sign: down.length > 0 ? "✕" : "▲", text: sentences.join(" ") };
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
