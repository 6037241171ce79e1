/** Say what a form may start from: what comes with the deck, and what people saved. Pure. */

import type { SavedPreset } from "@/api/presets";
import type { Preset } from "@/api/types";

/** A preset of either kind; `saved` is there for one that somebody saved. */
export type StartPreset = Preset & { saved?: SavedPreset };

/** Whose a saved preset is, in a few words. */
export const ACCESS: Record<SavedPreset["access"], { label: string; means: string }> = {
  private: { label: "Mine only", means: "Nobody else sees it." },
  shared: { label: "Everybody uses it", means: "You and administrators change it." },
  open: { label: "Everybody uses it, operators change it", means: "Every operator may change or delete it." },
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

/** The choices, those that people saved below those of the deck. */
export function choicesOf(starts: StartPreset[]): { group: string; items: { value: string; label: string }[] }[] {
  const items = (isSaved: boolean) =>
    starts.filter(({ saved }) => (saved !== undefined) === isSaved).map(({ name, title }) => ({ value: name, label: title }));
  return [
    { group: "Built in", items: items(false) },
    { group: "Saved", items: items(true) },
  ].filter((group) => group.items.length > 0);
}
