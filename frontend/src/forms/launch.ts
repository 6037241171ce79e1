/** A launch: its preset and project, its changes, and its shell command. Pure. */

import type { Project } from "@/api/projects";
import type { Preset } from "@/api/types";
import { counted, number } from "@/format";
import type { SavedPreset } from "@/forms/api";
import { type Config, isConfig, valueAt, withAt } from "@/forms/schema";

export type Change = { path: string; kind: "added" | "removed" | "changed"; before: unknown; after: unknown };

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** Return the differences, at the deepest path where both sides have objects. */
export function changesOf(before: unknown, after: unknown, path = ""): Change[] {
  if (!isConfig(before) || !isConfig(after)) {
    return same(before, after) ? [] : [{ path, kind: "changed", before, after }];
  }
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return keys.flatMap((key): Change[] => {
    const place = path ? `${path}.${key}` : key;
    if (!(key in after)) return [{ path: place, kind: "removed", before: before[key], after: undefined }];
    if (!(key in before)) return [{ path: place, kind: "added", before: undefined, after: after[key] }];
    return changesOf(before[key], after[key], place);
  });
}

/** Return the object that, merged into the old configuration, gives the new one; null if a removal is needed. */
export function overlayOf(changes: Change[]): Config | null {
  if (changes.some(({ kind }) => kind === "removed")) return null;
  return changes.reduce<Config>((overlay, { path, after }) => withAt(overlay, path, after), {});
}

/** The leaves of an object by path; null for a value that is not an object, or an empty one. */
export function leavesOf(value: unknown, above = ""): [path: string, leaf: unknown][] | null {
  if (!isConfig(value) || Object.keys(value).length === 0) return null;
  return Object.entries(value).flatMap(([key, inner]): [string, unknown][] => {
    const path = above ? `${above}.${key}` : key;
    return leavesOf(inner, path) ?? [[path, inner]];
  });
}

/** A value as one line of text. */
export function valueText(value: unknown): string {
  if (value === undefined) return "–";
  return typeof value === "string" ? value : JSON.stringify(value);
}

export type Launch = {
  name: string;
  /** With `uses_project_defaults`, which defaults to true. */
  project?: string;
  uses_project_defaults?: boolean;
  preset: string;
  config: Record<string, unknown>;
};

function quoted(text: string): string {
  return /^[\w.,:/=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** A value of `--set`: text, or JSON where text would be read as JSON. */
function assignedText(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value);
  try {
    JSON.parse(value);
    return JSON.stringify(value);
  } catch {
    return value;
  }
}

/** The fields of a configuration as `section.field=value`, or `field=value` outside of sections. */
function assignments(config: Record<string, unknown>): string[] {
  return Object.entries(config).flatMap(([section, value]) => {
    const fields = value !== null && typeof value === "object" && !Array.isArray(value) ? Object.entries(value) : [];
    if (fields.length === 0) return [`${section}=${assignedText(value)}`];
    return fields.map(([field, inner]) => `${section}.${field}=${assignedText(inner)}`);
  });
}

/** The `rolldeck run create` command; `config` is merged into the preset. */
export function cliCommand({ name, project, uses_project_defaults: usesDefaults, preset, config }: Launch): string {
  const words = ["rolldeck run create", `--name ${quoted(name || "NAME")}`];
  if (project) words.push(`--project ${quoted(project)}`);
  if (usesDefaults === false) words.push("--no-project-defaults");
  if (preset) words.push(`--preset ${quoted(preset)}`);
  for (const assignment of assignments(config)) words.push(`--set ${quoted(assignment)}`);
  return words.join(" ");
}

/** A preset of either kind; `saved` is set for saved presets. */
export type StartPreset = Preset & { saved?: SavedPreset };

/** UI labels of a saved preset's access level. */
export const ACCESS: Record<SavedPreset["access"], { label: string; means: string }> = {
  private: { label: "Private", means: "Visible to you only." },
  shared: { label: "Shared", means: "Editable by you and administrators." },
  open: { label: "Shared, editable by operators", means: "Editable and deletable by every operator." },
};

export function startsOf(builtIn: Preset[], saved: SavedPreset[]): StartPreset[] {
  const kept = saved.map(
    (one): StartPreset => ({
      name: one.name,
      title: one.description ? `${one.name}: ${one.description}` : one.name,
      config: one.config,
      saved: one,
    }),
  );
  return [...builtIn, ...kept];
}

/** An amount of resources: at most two decimals. */
const amount = (value: number, unit: string): string => counted(Math.round(value * 100) / 100, unit);

/** The resources of all workers, and what else a run of a configuration needs besides its trainer. */
export function needsOf(config: Config): string {
  const fleet = (valueAt(config, "fleet") ?? {}) as Config;
  const workers = Number(fleet.num_workers ?? 1);
  const [cpus, gpus] = [fleet.num_cpus_per_worker, fleet.num_gpus_per_worker].map((each) => Number(each ?? 0) * workers);
  const custom = Object.entries((fleet.resources ?? {}) as Record<string, number>);
  const model = valueAt(config, "language.model.checkpoint");
  const server = valueAt(config, "language.inference");
  return [
    amount(workers, "worker"),
    amount(cpus ?? 0, "CPU"),
    gpus ? amount(gpus, "GPU") : "no GPU",
    ...custom.map(([name, each]) => `${number(each * workers)} ${name}`),
    ...(model ? [`checkpoint ${String(model)}`] : []),
    ...(server ? [`server ${String(server)}`] : []),
  ].join(" · ");
}

type Launched = { preset: string; created_at: string };

/**
 * The configuration that a run's values are compared with, as in the launch form: that of its
 * preset. Without one, or if the preset is gone, the schema's defaults.
 */
export function baseOf({ preset, created_at }: Launched, presets: StartPreset[]): { config: Config; from: string } {
  const found = presets.find(({ name }) => name === preset);
  if (!found) return { config: {}, from: preset ? `the defaults, as the preset ${preset} is not available` : "the defaults" };
  const isChanged = found.saved !== undefined && Date.parse(found.saved.changed_at) > Date.parse(created_at);
  return { config: found.config, from: isChanged ? `${preset}, which has changed since the launch` : preset };
}

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
