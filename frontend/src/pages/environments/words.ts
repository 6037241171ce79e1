/** Descriptions and launch commands of the kinds of environments. Pure. */

import { term } from "@/components/filter/suggest";
import { number } from "@/format";
import { cliCommand } from "@/forms/commands";
import type { EnvironmentKind, KnownEnvironment, KnownEnvironments } from "@/pages/environments/api";
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
