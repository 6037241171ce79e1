/** Read what is typed for an environment, and say what came of trying it. Pure. */

import type { TriedEnvironment } from "@/api/environments";
import { count, number } from "@/format";

/** Arguments of a constructor, as JSON; nothing typed is none. */
export function kwargsOf(typed: string): { kwargs: Record<string, unknown> | null; problem?: string } {
  if (typed.trim() === "") return { kwargs: {} };
  try {
    const read: unknown = JSON.parse(typed);
    if (typeof read === "object" && read !== null && !Array.isArray(read)) return { kwargs: read as Record<string, unknown> };
  } catch {
    // said below
  }
  return { kwargs: null, problem: 'An object, such as {"delay": 4}' };
}

const ENDS: Record<"terminated" | "truncated" | "cut", string> = {
  terminated: "it ended by itself",
  truncated: "its own limit cut it",
  cut: "it was still going on",
};

/** What came of it, in one or two sentences. */
export function triedWords(tried: TriedEnvironment): string {
  if (tried.trouble) {
    const where = tried.is_missing ? " The deck's machine lacks it; those that step environments may have it." : "";
    return `It could not be tried: ${tried.trouble}.${where}`;
  }
  const spaces = `It shows ${tried.observation} and takes ${tried.action}.`;
  const { episode } = tried;
  if (!episode) return spaces;
  const total = episode.total_return === null ? "a reward was not finite" : `return ${number(episode.total_return)}`;
  const odd = episode.outside ? ` ▲ ${episode.outside}.` : "";
  return `${spaces} One episode: ${count(episode.steps)} steps, ${ENDS[episode.ended]}, ${total}, ${number(episode.steps_per_second)} steps/s.${odd}`;
}
