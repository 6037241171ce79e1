/** Place the errors of the server at the fields of a form. Pure. */

import type { Field } from "@/forms/fields";
import { type Answers, rowsOf } from "@/forms/rows";

/** Return whether a path leads to a value or into it. */
function isWithin(path: string, outer: string): boolean {
  return path === outer || path.startsWith(`${outer}.`) || path.startsWith(`${outer}[`);
}

/** Return the row that the rest of a path names, and the path inside the row. */
function rowAt(field: Field, answers: Answers, rest: string): { at: number; inner: string } | undefined {
  if (field.kind === "list") {
    const [, at, inner = ""] = /^\[(\d+)\]\.?(.*)$/.exec(rest) ?? [];
    return at === undefined ? undefined : { at: Number(at), inner };
  }
  // Names contain dots: the longest one that fits is meant.
  const rows = rowsOf(answers[field.path]) ?? [];
  const fitting = rows.map(({ name }, at) => ({ name, at })).filter(({ name }) => name && isWithin(rest, `.${name}`));
  const row = fitting.sort((a, b) => b.name.length - a.name.length)[0];
  return row && { at: row.at, inner: rest.slice(row.name.length + 2) };
}

/** The key of the field that a path of the configuration belongs to; rows by position. */
export function homeOf(fields: Field[], answers: Answers, path: string): string | undefined {
  const field = fields.find((each) => isWithin(path, each.path));
  if (!field) return undefined;
  const row = field.columns && rowAt(field, answers, path.slice(field.path.length));
  if (!row) return field.path;
  const inner = homeOf(field.columns ?? [], rowsOf(answers[field.path])?.[row.at]?.answers ?? {}, row.inner);
  const own = field.kind === "table" ? "name" : "";
  return [`${field.path}[${row.at}]`, inner ?? own].filter(Boolean).join(".");
}

/** The messages at a key and inside it. */
export function errorAt(errors: Record<string, string>, key: string): string | undefined {
  const found = Object.entries(errors).filter(([path]) => isWithin(path, key));
  return found.map(([, message]) => message).join(" ") || undefined;
}

/** Return the errors without those at a key and inside it. */
export function withoutErrorAt(errors: Record<string, string>, key: string): Record<string, string> {
  return Object.fromEntries(Object.entries(errors).filter(([path]) => !isWithin(path, key)));
}

/** The paths of the fields with errors; an error of a row counts for its table. */
export function fieldsWithErrors(fields: Field[], errors: Record<string, string>): string[] {
  return fields.map(({ path }) => path).filter((path) => errorAt(errors, path) !== undefined);
}

/**
 * Map server errors to fields. `config.fleet.num_workers` maps to `fleet.num_workers`, as do deeper
 * paths (`policy.hidden_sizes[1]`); a lesson's path maps to the position of its row. Unmatched errors
 * are returned separately.
 */
export function placeErrors(
  sections: { fields: Field[] }[],
  answers: Answers,
  errors: { field: string; message: string }[],
): { placed: Record<string, string>; loose: string[] } {
  const fields = sections.flatMap((section) => section.fields);
  const orders = new Map(fields.flatMap(({ order, path }) => (order ? [[order, path]] : [])));
  const placed: Record<string, string> = {};
  const loose: string[] = [];
  for (const { field, message } of errors) {
    const path = field.replace(/^config\.?/, "");
    const home = field === "name" ? "name" : (homeOf(fields, answers, path) ?? orders.get(path.replace(/\[.*$/, "")));
    if (home) placed[home] = placed[home] ? `${placed[home]} ${message}` : message;
    else loose.push(field ? `${field}: ${message}` : message);
  }
  return { placed, loose };
}
