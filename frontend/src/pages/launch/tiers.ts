/** The tiers of the launch form: essential fields, and sections of the others. Pure. */

import { put } from "@/forms/answers";
import { applies, conditionsText, valueAt } from "@/forms/conditions";
import { errorAt, fieldsWithErrors } from "@/forms/errors";
import type { Field, Section } from "@/forms/fields";
import { matching } from "@/forms/search";
import { type Change, changesOf } from "@/pages/launch/changes";

type Config = Record<string, unknown>;
type Errors = Record<string, string>;

/** A collapsed section: its visible fields, and how many of them are changed or have errors. */
export type TierSection = Section & { changed: number; wrong: number };
export type Tiers = {
  essentials: Field[];
  sections: TierSection[];
  /** All fields that apply, or have an error. */
  shown: Field[];
  /** Fields that do not apply under the present choices. */
  hidden: Field[];
};

export const NAME = /^[a-zA-Z0-9_-]{1,80}$/;
export const NAME_HELP = "Letters, digits, - and _; part of the run's URL.";
/** The run's name, which is no part of the configuration. */
export const NAME_FIELD: Field = {
  path: "name",
  title: "Name",
  help: NAME_HELP,
  unit: "",
  kind: "text",
  choices: [],
  optional: false,
  default: "",
  schema: {},
  range: "",
  isEssential: true,
  when: [],
};

export function fieldsOf(sections: { fields: Field[] }[]): Field[] {
  return sections.flatMap((section) => section.fields);
}

/** Return a configuration with the first values of the fields that have a problem. */
export function filled(sections: Section[], config: Config, problems: Errors, base: Config): Config {
  const whole = structuredClone(config);
  for (const field of fieldsOf(sections)) {
    if (errorAt(problems, field.path) === undefined) continue;
    put(whole, field.path, valueAt(base, field.path));
    if (field.order) put(whole, field.order, valueAt(base, field.order));
  }
  return whole;
}

/** Return the changes of the form: different values, and fields whose text has no value yet. */
export function formChanges(sections: Section[], base: Config, whole: Config, problems: Errors): Change[] {
  const wrong = fieldsWithErrors(fieldsOf(sections), problems).map(
    (path): Change => ({ path, kind: "invalid", before: valueAt(base, path), after: errorAt(problems, path) }),
  );
  return [...changesOf(base, whole), ...wrong];
}

/** Return the field of a change; a table's also for changes of its order. */
export function fieldOfChange(sections: Section[], path: string): Field | undefined {
  return fieldsOf(sections).find((field) => [field.path, field.order].some((own) => own && (path === own || path.startsWith(`${own}.`))));
}

/** The paths of the changed fields. */
export function changedPaths(sections: Section[], changes: Change[]): Set<string> {
  return new Set(changes.flatMap(({ path }) => fieldOfChange(sections, path)?.path ?? []));
}

/** Return the tiers for a configuration; `query` keeps the matching fields only. */
export function tiersOf(
  sections: Section[],
  { whole, changed, errors, query }: { whole: Config; changed: Set<string>; errors: Errors; query: string },
): Tiers {
  const isShown = (field: Field) => applies(field.when, whole) || errorAt(errors, field.path) !== undefined;
  const all = fieldsOf(sections);
  const found = new Set(matching(all, query));
  const rest = sections.map((section): TierSection => {
    const fields = section.fields.filter((field) => !field.isEssential && isShown(field) && found.has(field));
    const count = (matches: (field: Field) => boolean) => fields.filter(matches).length;
    return {
      ...section,
      fields,
      changed: count(({ path }) => changed.has(path)),
      wrong: count(({ path }) => errorAt(errors, path) !== undefined),
    };
  });
  return {
    essentials: all.filter((field) => field.isEssential && isShown(field) && found.has(field)),
    sections: rest.filter(({ fields }) => fields.length > 0),
    shown: all.filter((field) => isShown(field)),
    hidden: all.filter((field) => !isShown(field)),
  };
}

/** The names of the sections that contain a field outside the essentials with an error. */
export function sectionsWithErrors(sections: Section[], errors: Errors): string[] {
  const isWrong = (field: Field) => !field.isEssential && errorAt(errors, field.path) !== undefined;
  return sections.filter(({ fields }) => fields.some(isWrong)).map(({ name }) => name);
}

/** The reason why a field does not apply, with the titles of the fields that decide. */
export function reasonHidden(sections: Section[], field: Field, whole: Config): string {
  const failing = field.when.filter((condition) => !applies([condition], whole));
  return conditionsText(failing, (path) => fieldsOf(sections).find((each) => each.path === path)?.title ?? path);
}
