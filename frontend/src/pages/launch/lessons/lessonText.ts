/** Lessons as JSON text. Pure. */

import { answersOf, collect, put } from "@/forms/answers";
import { errorAt } from "@/forms/errors";
import { type Field, isConfig } from "@/forms/fields";
import { freeName, type Row, rowsOf } from "@/forms/rows";

type Config = Record<string, unknown>;

/** The object of a row; invalid fields keep their text. */
function objectOf(field: Field, row: Row): Config {
  const columns = field.columns ?? [];
  const { config, problems } = collect([{ fields: columns }], row.answers);
  for (const { path } of columns) if (errorAt(problems, path) !== undefined) put(config, path, row.answers[path]);
  return config;
}

/** The rows of a table as JSON, in their order; other text is returned as it is. */
export function jsonOf(field: Field, answer: string): string {
  const rows = rowsOf(answer);
  if (rows === null) return answer;
  const named: Row[] = [];
  for (const row of rows) named.push({ ...row, name: freeName(named, row.name) });
  return JSON.stringify(Object.fromEntries(named.map((row) => [row.name, objectOf(field, row)])), null, 2);
}

/** The paths in an object that are no columns of the table. */
function unknownIn(field: Field, object: unknown, path = ""): string[] {
  const columns = field.columns ?? [];
  if (columns.some((column) => column.path === path)) return [];
  if (!isConfig(object) || (path !== "" && !columns.some((column) => column.path.startsWith(`${path}.`)))) return [path];
  return Object.entries(object).flatMap(([key, value]) => unknownIn(field, value, path ? `${path}.${key}` : key));
}

/** Parse JSON into the text of the form, or return its problem. */
export function readLessons(field: Field, text: string): { answer: string } | { problem: string } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { problem: 'Not valid JSON. Enter an object of lessons by name, such as {"sort": {"spec": "task:sort"}}.' };
  }
  if (!isConfig(value)) return { problem: 'Enter an object of lessons by name, such as {"sort": {"spec": "task:sort"}}.' };
  for (const [name, lesson] of Object.entries(value)) {
    if (!isConfig(lesson)) return { problem: `${name}: enter an object, such as {"spec": "task:sort"}.` };
    const [unknown] = unknownIn(field, lesson);
    if (unknown !== undefined) return { problem: `${name}: there is no field ${unknown}.` };
  }
  const config: Config = {};
  put(config, field.path, value);
  return { answer: String(answersOf([{ fields: [field] }], config)[field.path]) };
}
