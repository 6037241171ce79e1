/** Presets that a form may start from: built-in and saved. Pure. */

import type { Preset } from "@/api/types";
import type { SavedPreset } from "@/pages/launch/api";

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

/** The choices; saved presets follow the built-in ones. */
export function choicesOf(starts: StartPreset[]): { group: string; items: { value: string; label: string }[] }[] {
  const items = (isSaved: boolean) =>
    starts.filter(({ saved }) => (saved !== undefined) === isSaved).map(({ name, title }) => ({ value: name, label: title }));
  return [
    { group: "Built in", items: items(false) },
    { group: "Saved", items: items(true) },
  ].filter((group) => group.items.length > 0);
}
