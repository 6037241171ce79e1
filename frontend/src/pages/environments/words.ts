/** Say what kinds of environments there are, and how each is launched. Pure. */

import type { EnvironmentKind, KnownEnvironment, KnownEnvironments } from "@/api/environments";
import { number } from "@/format";
import { cliCommand } from "@/pages/launch/commands";

export const KINDS: Record<EnvironmentKind, { label: string; meaning: string; unit: string }> = {
  steps: {
    label: "steps",
    meaning: "Stepped by the workers of a fleet run; rewards are returns of its training episodes.",
    unit: "episodes",
  },
  tokens: { label: "tokens", meaning: "A lesson of a language run; rewards are mean scores of its groups.", unit: "groups" },
  outside: {
    label: "outside",
    meaning: "Registered over the Atropos API from elsewhere; rewards are mean scores of its groups.",
    unit: "groups",
  },
};

/** What the figures of the list are of. */
export function windowWords(page: KnownEnvironments): string {
  const bound = `Rates are of the last hour; rewards and shares of the newest ${number(page.groups_each)} groups of each of its ${page.runs_each} newest runs`;
  return page.has_older_runs ? `${bound}; runs beyond the newest ${number(page.looked_at_runs)} are not counted.` : `${bound}.`;
}

/** A word that a run may be called by, made of an environment's name. */
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

/** The exact command that starts a run with this environment. */
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
