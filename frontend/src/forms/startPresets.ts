/** Presets that a form may start from: built-in and saved. Pure. */

import type { Preset } from "@/api/types";
import { number } from "@/format";
import type { SavedPreset } from "@/forms/api";
import { type Config, valueAt } from "@/forms/schema";

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

/** What a preset card shows. */
export type PresetCard = { name: string; sentence: string; kind: "fleet" | "language"; needs: string; isSaved: boolean };

/** The cards of the presets; saved presets follow the built-in ones. */
export function cardsOf(starts: StartPreset[]): PresetCard[] {
  return starts.map(({ name, title, config, saved }) => ({
    name,
    sentence: saved ? saved.description || "No description." : `${title}.`,
    kind: config.language ? "language" : "fleet",
    needs: needsOf(config),
    isSaved: saved !== undefined,
  }));
}

/** An amount of resources: at most two decimals. */
function amount(value: number, unit: string): string {
  const text = number(Math.round(value * 100) / 100);
  return `${text} ${unit}${value === 1 ? "" : "s"}`;
}

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
