/** Words about the size of a fleet. */

export const MOST_WORKERS = 4096;

const workers = (count: number) => `${count} ${count === 1 ? "worker" : "workers"}`;

/** Say what a change from `now` to `wanted` workers does. */
export function whatHappens(now: number, wanted: number): string {
  if (wanted > now) return `Starts ${workers(wanted - now)}.`;
  if (wanted < now) return `Lets ${workers(now - wanted)} send what they have, then ends them.`;
  return "At least 1. The run's configuration stays as it is.";
}
