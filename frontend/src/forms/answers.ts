/** Text of fields from a configuration, and the configuration from the text. Pure. */

import { number } from "@/format";
import { valueAt } from "@/forms/conditions";
import { readExtensions } from "@/forms/extensions";
import { type Field, isConfig, type JsonSchema, rangeOf } from "@/forms/fields";
import { type Answer, type Answers, answerOfRows, type Row, rowsOf } from "@/forms/rows";

type Config = Record<string, unknown>;
type Fields = { fields: Field[] };

const LONGEST_LINE = 60;

/** Return the row of an object: the text of its fields. */
function rowOf(field: Field, name: string, object: unknown): Row {
  const columns = field.columns ?? [];
  return { name, answers: answersOf([{ fields: columns }], isConfig(object) ? object : {}) };
}

/** Return a row with the defaults of its fields. */
export function newRow(field: Field, name: string): Row {
  return rowOf(field, name, {});
}

/** The names of a table in their order; names that the order omits follow. */
function inOrder(table: Config, order: unknown): string[] {
  const named = Array.isArray(order) ? order.filter((name): name is string => typeof name === "string" && name in table) : [];
  return [...new Set([...named, ...Object.keys(table)])];
}

/** Format a value for its field; `order` is that of a table's names. */
export function written(field: Field, value: unknown, order?: unknown): Answer {
  if (field.kind === "switch") return value === true;
  if (field.kind === "table") {
    const table = isConfig(value) ? value : {};
    return answerOfRows(inOrder(table, order).map((name) => rowOf(field, name, table[name])));
  }
  if (field.kind === "list") return answerOfRows((Array.isArray(value) ? value : []).map((each) => rowOf(field, "", each)));
  if (value === null || value === undefined) return "";
  if (field.kind === "numbers" && Array.isArray(value)) return value.join(", ");
  if (field.kind === "extensions") return JSON.stringify(value);
  if (field.kind === "json") {
    const line = JSON.stringify(value);
    return line.length > LONGEST_LINE ? JSON.stringify(value, null, 2) : line;
  }
  return String(value);
}

/** A field's value as text; empty if it is too long. */
function answerText(field: Field, answer: Answer): string {
  if (typeof answer === "boolean") return answer ? "on" : "off";
  if (answer === "") return field.optional ? "empty" : "";
  if (field.kind === "table" || field.kind === "list" || field.kind === "extensions") return answer === "[]" ? "none" : "";
  const text = field.kind === "integer" ? number(Number(answer)) : answer;
  return text.length <= 24 ? text : "";
}

/** The origin of a form's first values: a preset, or a cloned run. */
export type Origin = { name: string; isPreset: boolean };

/**
 * A field's default: the value of the preset, next to the schema's if that differs. For a clone: the
 * schema's default, and the value of the cloned run.
 */
export function defaultText(field: Field, standard: Answer, start: Answer, { name, isPreset }: Origin): string {
  const [given, other] = [answerText(field, standard), answerText(field, start)];
  const isSame = standard === start;
  if (isSame) return given && `Default ${given}.`;
  if (isPreset && other) return `Default ${other}, set by ${name}${given && `; ${given} without it`}.`;
  const parts = [given && !isPreset && `Default ${given}`, other ? `${name}: ${other}` : `set by ${name}`];
  const text = parts.filter(Boolean).join("; ");
  return `${text[0]?.toUpperCase()}${text.slice(1)}.`;
}

/** Return each field's text for a configuration; missing values use the schema's default. */
export function answersOf(sections: Fields[], config: Config): Answers {
  const answers: Answers = {};
  for (const field of sections.flatMap((section) => section.fields)) {
    const value = valueAt(config, field.path);
    const order = field.order && valueAt(config, field.order);
    answers[field.path] = written(field, value === undefined ? field.default : value, order);
  }
  return answers;
}

type Read = { value: unknown } | { problem: string };

function readNumber(text: string, schema: JsonSchema, integer: boolean): Read {
  const value = Number(text.replaceAll(",", ""));
  if (text.trim() === "" || !Number.isFinite(value)) return { problem: "Enter a number." };
  if (integer && !Number.isInteger(value)) return { problem: "Enter a whole number." };
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = schema;
  const within =
    (minimum === undefined || value >= minimum) &&
    (maximum === undefined || value <= maximum) &&
    (exclusiveMinimum === undefined || value > exclusiveMinimum) &&
    (exclusiveMaximum === undefined || value < exclusiveMaximum);
  return within ? { value } : { problem: `Out of range: ${rangeOf(schema)}.` };
}

function readNumbers(text: string, schema: JsonSchema): Read {
  const pieces = text.split(/[\s,;]+/).filter(Boolean);
  const { minItems = 0, maxItems = Infinity } = schema;
  if (pieces.length < minItems) return { problem: `Enter at least ${minItems} number.` };
  if (pieces.length > maxItems) return { problem: `Enter at most ${maxItems} numbers.` };
  const read = pieces.map((piece) => readNumber(piece, schema.items ?? {}, schema.items?.type === "integer"));
  const bad = read.find((each) => "problem" in each);
  return bad ?? { value: read.map((each) => ("value" in each ? each.value : null)) };
}

function readList(text: string): Read {
  try {
    const value: unknown = JSON.parse(text || "[]");
    return Array.isArray(value) ? { value } : { problem: 'Enter a JSON list, such as ["one"].' };
  } catch {
    return { problem: 'Not valid JSON. Enter a list, such as ["one"].' };
  }
}

function readJson(text: string): Read {
  try {
    const value: unknown = JSON.parse(text || "{}");
    return isConfig(value) ? { value } : { problem: 'Enter a JSON object, such as {"key": 1}.' };
  } catch {
    return { problem: 'Not valid JSON. Enter an object, such as {"key": 1}.' };
  }
}

function readText(text: string, schema: JsonSchema): Read {
  if (schema.pattern && !new RegExp(schema.pattern, "u").test(text)) {
    return { problem: `Does not match the pattern ${schema.pattern}` };
  }
  return { value: text };
}

/** Parse a field's text: its value or its problem. */
export function read(field: Field, answer: string | boolean): Read {
  if (typeof answer === "boolean") return { value: answer };
  if (field.optional && answer.trim() === "") return { value: null };
  switch (field.kind) {
    case "integer":
    case "number":
      return readNumber(answer, field.schema, field.kind === "integer");
    case "numbers":
      return readNumbers(answer, field.schema);
    case "extensions":
      return readExtensions(answer);
    case "json":
      return field.schema.type === "array" ? readList(answer) : readJson(answer);
    case "text":
      return readText(answer, field.schema);
    default:
      return { value: answer };
  }
}

/** Return the paths of a configuration that the form has no field for. */
export function unknownPaths(sections: Fields[], config: unknown, path = ""): string[] {
  const fields = sections.flatMap((section) => section.fields.flatMap((field) => [field.path, ...(field.order ? [field.order] : [])]));
  if (path && fields.includes(path)) return [];
  const isPart = path === "" || fields.some((each) => each.startsWith(`${path}.`));
  if (!isPart || (path !== "" && !isConfig(config))) return [path];
  if (!isConfig(config)) return [];
  return Object.entries(config).flatMap(([key, value]) => unknownPaths(sections, value, path ? `${path}.${key}` : key));
}

/** A problem for each invalid field; fields of rows by position: `language.lessons[2].spec`. */
export type Problems = Record<string, string>;
type Collected = { config: Config; problems: Problems };

/** Parse the rows of a table or list; problems are keyed by the path inside the field. */
function readRows(field: Field, answer: Answer): { objects: [name: string, object: Config][]; problems: Problems } {
  const rows = rowsOf(answer);
  if (rows === null) return { objects: [], problems: { "": "Not valid JSON. Enter an object of objects by name." } };
  const problems: Problems = {};
  const objects = rows.map(({ name, answers }, at): [string, Config] => {
    const inner = collect([{ fields: field.columns ?? [] }], answers);
    for (const [path, problem] of Object.entries(inner.problems)) problems[`[${at}].${path}`] = problem;
    if (field.kind === "table") {
      const wrong = nameProblem(field, rows, at);
      if (wrong) problems[`[${at}].name`] = wrong;
    }
    return [name, inner.config];
  });
  return { objects, problems };
}

function nameProblem(field: Field, rows: Row[], at: number): string | undefined {
  const name = rows[at]?.name ?? "";
  if (name === "") return "Enter a name.";
  if (rows.some((row, other) => other < at && row.name === name)) return "Another row has this name.";
  const read = readText(name, field.schema.propertyNames ?? {});
  return "problem" in read ? read.problem : undefined;
}

/** Set the value at a dotted path. */
export function put(config: Config, path: string, value: unknown): void {
  const keys = path.split(".");
  const last = keys.pop() as string;
  const place = keys.reduce<Config>((inner, key) => {
    inner[key] ??= {};
    return inner[key] as Config;
  }, config);
  place[last] = value;
}

/** Return the configuration that the answers describe, and a problem for each invalid field. */
export function collect(sections: Fields[], answers: Answers): Collected {
  const config: Config = {};
  const problems: Problems = {};
  for (const field of sections.flatMap((section) => section.fields)) {
    const answer = answers[field.path] ?? "";
    if (field.columns) {
      const rows = readRows(field, answer);
      for (const [inner, problem] of Object.entries(rows.problems)) problems[field.path + inner] = problem;
      if (Object.keys(rows.problems).length > 0) continue;
      const isTable = field.kind === "table";
      put(config, field.path, isTable ? Object.fromEntries(rows.objects) : rows.objects.map(([, object]) => object));
      if (field.order)
        put(
          config,
          field.order,
          rows.objects.map(([name]) => name),
        );
      continue;
    }
    const result = read(field, answer);
    if ("problem" in result) problems[field.path] = result.problem;
    else put(config, field.path, result.value);
  }
  return { config, problems };
}
