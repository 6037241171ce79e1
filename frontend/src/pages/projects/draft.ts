/** The project form: initial values, requests and the places of errors. Pure. */

import type { NewProject, Project, ProjectChange } from "@/api/projects";

export type ProjectDraft = {
  name: string;
  title: string;
  description: string;
  preset: string;
  tags: string[];
  /** The default configuration as JSON. */
  config: string;
};
export type Field = keyof ProjectDraft;

const NAME = /^[a-zA-Z0-9_-]{1,80}$/;

export function draftOf(project: Project | undefined): ProjectDraft {
  const defaults = project?.defaults;
  const config = defaults?.config ?? {};
  return {
    name: project?.name ?? "",
    title: project?.title ?? "",
    description: project?.description ?? "",
    preset: defaults?.preset ?? "",
    tags: defaults?.tags ?? [],
    config: Object.keys(config).length > 0 ? JSON.stringify(config, null, 2) : "",
  };
}

/** The configuration; null if the text is no JSON object. */
export function configOf(text: string): Record<string, unknown> | null {
  if (!text.trim()) return {};
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

/** Errors that need no request. */
export function draftErrors(draft: ProjectDraft): Partial<Record<Field, string>> {
  return {
    ...(NAME.test(draft.name) ? {} : { name: "1 to 80 letters, digits, - and _." }),
    ...(configOf(draft.config) ? {} : { config: 'Enter a JSON object, such as {"num_steps": 500}.' }),
  };
}

/** The request that creates a project. */
export function creationOf(draft: ProjectDraft, reason: string): NewProject {
  const { name, title, description, preset, tags, config } = draft;
  return { name, title, description, defaults: { preset, tags, config: configOf(config) ?? {} }, reason };
}

/** The request that changes a project; unchanged fields are omitted. */
export function changeOf(draft: ProjectDraft, project: Project, reason: string): ProjectChange {
  const before = draftOf(project);
  const differs = (field: Field) => JSON.stringify(draft[field]) !== JSON.stringify(before[field]);
  const { name, title, description, preset, tags, config } = draft;
  return {
    ...(differs("name") ? { name } : {}),
    ...(differs("title") ? { title } : {}),
    ...(differs("description") ? { description } : {}),
    defaults: {
      ...(differs("preset") ? { preset } : {}),
      ...(differs("tags") ? { tags } : {}),
      ...(differs("config") ? { config: configOf(config) ?? {} } : {}),
    },
    reason,
  };
}

/** The server's errors at their inputs; those of the configuration keep their path. */
export function placedErrors(errors: { field: string; message: string }[]): Partial<Record<Field, string>> {
  const found: Partial<Record<Field, string>> = {};
  for (const { field, message } of errors) {
    const [first, second, ...rest] = field.split(".");
    const place = (first === "defaults" ? second : first) as Field;
    const path = place === "config" && rest.length > 0 ? `${rest.join(".")}: ` : "";
    found[place] = [found[place], path + message].filter(Boolean).join("; ");
  }
  return found;
}
