/** Parse environment arguments and format the result of a probe. Pure. */

import { count, number } from "@/format";
import type { ProbedEnvironment } from "@/pages/environments/api";

/** Constructor arguments as JSON; empty text means none. */
export function kwargsOf(typed: string): { kwargs: Record<string, unknown> | null; problem?: string } {
  if (typed.trim() === "") return { kwargs: {} };
  try {
    const read: unknown = JSON.parse(typed);
    if (typeof read === "object" && read !== null && !Array.isArray(read)) return { kwargs: read as Record<string, unknown> };
  } catch {
    // said below
  }
  return { kwargs: null, problem: 'Enter a JSON object, such as {"delay": 4}' };
}

const ENDS: Record<"terminated" | "truncated" | "cut", string> = {
  terminated: "terminated",
  truncated: "truncated",
  cut: "cut off while running",
};

/** The result of a probe as one or two sentences. */
export function probeText(tried: ProbedEnvironment): string {
  if (tried.trouble) {
    const where = tried.is_missing ? " It is not installed on the server, but may be on the workers." : "";
    return `Probe failed: ${tried.trouble}.${where}`;
  }
  const spaces = `Observations: ${tried.observation}; actions: ${tried.action}.`;
  const { episode } = tried;
  if (!episode) return spaces;
  const total = episode.total_return === null ? "a non-finite reward" : `return ${number(episode.total_return)}`;
  const odd = episode.outside ? ` ▲ ${episode.outside}.` : "";
  return `${spaces} One episode: ${count(episode.steps)} steps, ${ENDS[episode.ended]}, ${total}, ${number(episode.steps_per_second)} steps/s.${odd}`;
}
