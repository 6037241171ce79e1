/** Kinds of runs that the form launches. Pure. */

import type { Section } from "@/forms/fields";

export type Config = Record<string, unknown>;
export type Kind = "fleet" | "language";

export function kindOf(config: Config): Kind {
  return config.language ? "language" : "fleet";
}

/** The form sections for a kind of run; those of its own kind first. */
export function sectionsFor(all: Section[], kind: Kind): Section[] {
  const rest = all.filter((section) => !section.optionalPart);
  return kind === "fleet" ? rest : [...all.filter((section) => section.optionalPart === "language"), ...rest];
}
