/** Convert the JSON Schema of a run configuration to form fields, and answers back to JSON. */

import { number } from "@/format";
import { readExtensions } from "@/forms/extensions";

export type JsonSchema = {
  $ref?: string;
  $defs?: Record<string, JsonSchema>;
  title?: string;
  description?: string;
  type?: string;
  enum?: unknown[];
  anyOf?: JsonSchema[];
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  pattern?: string;
  "x-unit"?: string;
  "x-choices"?: string[];
};

type FieldKind = "integer" | "number" | "text" | "choice" | "switch" | "numbers" | "extensions" | "json";

export type Field = {
  /** Dotted path in the configuration: `fleet.num_workers`. */
  path: string;
  title: string;
  help: string;
  unit: string;
  kind: FieldKind;
  choices: string[];
  optional: boolean;
  default: unknown;
  schema: JsonSchema;
  /** Bounds of a number, or of the numbers of a list, as text: `1 – 1,024`. */
  range: string;
};

export type Section = {
  name: string;
  title: string;
  help: string;
  fields: Field[];
  /** The optional part of the configuration that contains this field; null instead of an object if absent. */
  optionalPart?: string;
};
export type Answers = Record<string, string | boolean>;
type Config = Record<string, unknown>;

const isConfig = (value: unknown): value is Config => typeof value === "object" && value !== null && !Array.isArray(value);

function resolved(schema: JsonSchema, root: JsonSchema): JsonSchema {
  if (!schema.$ref) return schema;
  const target = root.$defs?.[schema.$ref.replace("#/$defs/", "")];
  return target ? { ...target, ...schema, title: schema.title ?? target.title } : schema;
}

function words(name: string): string {
  const text = name.replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function kindOf(schema: JsonSchema): FieldKind {
  if (schema.enum) return "choice";
  if (schema["x-choices"]) return "extensions";
  if (schema.type === "integer" || schema.type === "number") return schema.type;
  if (schema.type === "boolean") return "switch";
  const item = schema.items?.type;
  if (schema.type === "array" && (item === "integer" || item === "number")) return "numbers";
  return schema.type === "string" ? "text" : "json";
}

/** The bounds of a schema as text; empty if there are none. */
export function rangeOf(schema: JsonSchema): string {
  const low = schema.minimum ?? schema.exclusiveMinimum;
  const high = schema.maximum ?? schema.exclusiveMaximum;
  const lowText = low === undefined ? "" : `${schema.exclusiveMinimum === undefined ? "" : "> "}${number(low)}`;
  const highText = high === undefined ? "" : number(high);
  if (lowText && highText) return `${lowText} – ${highText}`;
  if (lowText) return schema.exclusiveMinimum === undefined ? `≥ ${lowText}` : lowText;
  return highText ? `≤ ${highText}` : "";
}

function fieldOf(path: string, name: string, raw: JsonSchema, root: JsonSchema, given: unknown): Field {
  const schema = resolved(raw, root);
  const real = schema.anyOf?.find((each) => each.type !== "null");
  const inner = real ? { ...schema, ...real, anyOf: undefined } : schema;
  const kind = kindOf(inner);
  return {
    path,
    title: schema.title ?? words(name),
    help: schema.description ?? "",
    unit: schema["x-unit"] ?? "",
    kind,
    choices: (inner.enum ?? inner["x-choices"] ?? []).map(String),
    optional: schema.anyOf?.some((each) => each.type === "null") ?? false,
    default: given === undefined ? schema.default : given,
    schema: inner,
    range: rangeOf(kind === "numbers" ? (inner.items ?? {}) : inner),
  };
}

function sectionOf(path: string, name: string, raw: JsonSchema, root: JsonSchema): Section[] {
  const schema = resolved(raw, root);
  const given = isConfig(raw.default) ? raw.default : {};
  const fields: Field[] = [];
  const below: Section[] = [];
  for (const [key, property] of Object.entries(schema.properties ?? {})) {
    const place = `${path}.${key}`;
    if (resolved(property, root).properties)
      below.push(...sectionOf(place, key, { ...property, default: given[key] ?? property.default }, root));
    else fields.push(fieldOf(place, key, property, root, given[key]));
  }
  return [{ name: path, title: words(name), help: schema.description ?? "", fields }, ...below];
}

/** The object schema of a nullable object. */
function objectOrNull(raw: JsonSchema, root: JsonSchema): JsonSchema | undefined {
  const object = raw.anyOf?.find((each) => resolved(each, root).properties);
  return object && { ...resolved(object, root), description: raw.description };
}

/** Return the sections of the form: one for each object of the configuration, the rest last. */
export function sectionsOf(root: JsonSchema): Section[] {
  const top = resolved(root, root);
  const sections: Section[] = [];
  const loose: Field[] = [];
  for (const [name, raw] of Object.entries(top.properties ?? {})) {
    const part = objectOrNull(raw, root);
    if (resolved(raw, root).properties) sections.push(...sectionOf(name, name, raw, root));
    else if (part) sections.push(...sectionOf(name, name, part, root).map((each) => ({ ...each, optionalPart: name })));
    else loose.push(fieldOf(name, name, raw, root, undefined));
  }
  if (loose.length > 0) sections.push({ name: "", title: "Length and seed", help: "", fields: loose });
  return sections;
}

function at(config: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>((value, key) => (isConfig(value) ? value[key] : undefined), config);
}

const LONGEST_LINE = 60;

/** Format a value for its field. */
export function written(field: Field, value: unknown): string | boolean {
  if (field.kind === "switch") return value === true;
  if (value === null || value === undefined) return "";
  if (field.kind === "numbers" && Array.isArray(value)) return value.join(", ");
  if (field.kind === "extensions") return JSON.stringify(value);
  if (field.kind === "json") {
    const line = JSON.stringify(value);
    return line.length > LONGEST_LINE ? JSON.stringify(value, null, 2) : line;
  }
  return String(value);
}

type Answer = string | boolean;

/** A field's value as text; empty if it is too long. */
function answerText(field: Field, answer: Answer): string {
  if (typeof answer === "boolean") return answer ? "on" : "off";
  if (answer === "") return field.optional ? "empty" : "";
  if (field.kind === "extensions") return answer === "[]" ? "none" : "";
  const text = field.kind === "integer" ? number(Number(answer)) : answer;
  return text.length <= 24 ? text : "";
}

/**
 * A field's schema default, and its value in the preset or run that the form starts from,
 * if that differs.
 */
export function defaultText(field: Field, standard: Answer, start: Answer, from: string): string {
  const [given, other] = [answerText(field, standard), answerText(field, start)];
  const parts = [given && `Default ${given}`, standard !== start && (other ? `${from}: ${other}` : `set by ${from}`)];
  const text = parts.filter(Boolean).join("; ");
  return text && `${text[0]?.toUpperCase()}${text.slice(1)}.`;
}

/** Return each field's text for a configuration; missing values use the schema's default. */
export function answersOf(sections: Section[], config: Config): Answers {
  const answers: Answers = {};
  for (const field of sections.flatMap((section) => section.fields)) {
    const value = at(config, field.path);
    answers[field.path] = written(field, value === undefined ? field.default : value);
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
export function unknownPaths(sections: Section[], config: unknown, path = ""): string[] {
  const fields = sections.flatMap((section) => section.fields.map((field) => field.path));
  if (path && fields.includes(path)) return [];
  const isPart = path === "" || fields.some((each) => each.startsWith(`${path}.`));
  if (!isPart || (path !== "" && !isConfig(config))) return [path];
  if (!isConfig(config)) return [];
  return Object.entries(config).flatMap(([key, value]) => unknownPaths(sections, value, path ? `${path}.${key}` : key));
}

type Collected = { config: Config; problems: Record<string, string> };

/** Return the configuration that the answers describe, and a problem for each invalid field. */
export function collect(sections: Section[], answers: Answers): Collected {
  const config: Config = {};
  const problems: Record<string, string> = {};
  for (const field of sections.flatMap((section) => section.fields)) {
    const result = read(field, answers[field.path] ?? "");
    if ("problem" in result) {
      problems[field.path] = result.problem;
      continue;
    }
    const keys = field.path.split(".");
    const last = keys.pop() as string;
    const place = keys.reduce<Config>((inner, key) => {
      inner[key] ??= {};
      return inner[key] as Config;
    }, config);
    place[last] = result.value;
  }
  return { config, problems };
}

/**
 * Map server errors to fields. `config.fleet.num_workers` maps to `fleet.num_workers`, as do deeper
 * paths (`policy.hidden_sizes[1]`); unmatched errors are returned separately.
 */
export function placeErrors(
  sections: Section[],
  errors: { field: string; message: string }[],
): { placed: Record<string, string>; loose: string[] } {
  const paths = sections.flatMap((section) => section.fields.map((field) => field.path));
  const placed: Record<string, string> = {};
  const loose: string[] = [];
  for (const { field, message } of errors) {
    const path = field.replace(/^config\.?/, "");
    const home =
      field === "name" ? "name" : paths.find((each) => path === each || path.startsWith(`${each}.`) || path.startsWith(`${each}[`));
    if (home) placed[home] = placed[home] ? `${placed[home]} ${message}` : message;
    else loose.push(field ? `${field}: ${message}` : message);
  }
  return { placed, loose };
}
