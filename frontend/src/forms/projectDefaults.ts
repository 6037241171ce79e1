/** The defaults of a project in the launch form. Pure. */

import type { Project } from "@/api/projects";
import { leavesOf } from "@/forms/changes";
import type { Launch } from "@/forms/commands";
import { type Config, isConfig } from "@/forms/schema";
import type { StartPreset } from "@/forms/startPresets";

/** The fields of `top` merged over those of `base`, at every depth, as the server does. */
export function merged(base: Config, top: Config): Config {
  const whole = { ...base };
  for (const [key, value] of Object.entries(top)) {
    const below = whole[key];
    whole[key] = isConfig(below) && isConfig(value) ? merged(below, value) : value;
  }
  return whole;
}

/** The presets with the project's configuration merged over each. */
export function presetsIn(project: Project | undefined, presets: StartPreset[]): StartPreset[] {
  if (!project) return presets;
  return presets.map((preset) => ({ ...preset, config: merged(preset.config, project.defaults.config) }));
}

/** The launch in a project; a launch with the full configuration does not take the project's. */
export function launchIn(project: Project | undefined, launch: Launch): Launch {
  if (!project) return launch;
  const isWhole = launch.preset === "";
  return { ...launch, project: project.name, ...(isWhole ? { uses_project_defaults: false } : {}) };
}

/** The fields that the project's defaults set, as one line. */
export function defaultsText(project: Project): string {
  const { config, tags } = project.defaults;
  const paths = (leavesOf(config) ?? []).map(([path]) => path);
  const parts = [paths.length > 0 ? `sets ${paths.join(", ")}` : "", tags.length > 0 ? `adds the tags ${tags.join(", ")}` : ""];
  return parts.filter(Boolean).join(" and ") || "sets no values";
}
