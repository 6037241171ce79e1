/** Texts of environments: their kinds, launch commands and probes. Pure. */

import { term } from "@/components/filter/suggest";
import { counted, number } from "@/format";
import { cliCommand } from "@/forms/launch";
import type { EnvironmentKind, KnownEnvironment, KnownEnvironments, ProbedEnvironment } from "@/pages/environments/api";
import type { SampleSearch } from "@/samples/search";

export const KINDS: Record<EnvironmentKind, { label: string; meaning: string; unit: string }> = {
  steps: {
    label: "steps",
    meaning: "Stepped by the workers of a fleet run; rewards are returns of training episodes.",
    unit: "episodes",
  },
  tokens: { label: "tokens", meaning: "A lesson of a language run; rewards are mean scores of its groups.", unit: "groups" },
  outside: {
    label: "outside",
    meaning: "Registered by an external process over the Atropos API; rewards are mean scores of its groups.",
    unit: "groups",
  },
};

/** The search for the worst trajectories of an environment; lessons have names of their own in each run. */
export function worstOf(kind: EnvironmentKind, name: string): SampleSearch {
  return { ...(kind === "steps" ? { kind: "episode" } : {}), q: term("env", name), sort: "score" };
}

/** The window of the list's figures. */
export function windowText(page: KnownEnvironments): string {
  const bound = `Rates cover the last hour; rewards and shares the newest ${number(page.groups_each)} groups of each of the ${page.runs_each} newest runs`;
  return page.has_older_runs ? `${bound}; runs beyond the newest ${number(page.examined_runs)} are not counted.` : `${bound}.`;
}

/** A valid run name derived from an environment's name. */
export function runName(environment: string): string {
  const last = environment.split(/[:/]/).at(-1) ?? "";
  return (
    last
      .toLowerCase()
      .replace(/[^a-z0-9_-]+/g, "-")
      .replace(/^-+|-+$/g, "")
      .slice(0, 60) || "my-run"
  );
}

/** The command that starts a run with this environment. */
export function launchCommand(environment: KnownEnvironment, config: Record<string, unknown>, origin: string): string {
  if (environment.kind === "outside") {
    const [scheme, host] = origin.split("://");
    const run = environment.newest_run ?? "my-run";
    return `python my_environment.py serve \\\n  --env.rollout_server_url "${scheme}://env:$ROLLDECK_TOKEN@${host}/atropos/${run}"`;
  }
  const [preset] = environment.presets;
  const isWhole = environment.kind === "steps" && preset;
  return cliCommand({ name: runName(environment.name), preset: isWhole ? preset : "", config: isWhole ? {} : config });
}

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
  return `${spaces} One episode: ${counted(episode.steps, "step")}, ${ENDS[episode.ended]}, ${total}, ${number(episode.steps_per_second)} steps/s.${odd}`;
}
