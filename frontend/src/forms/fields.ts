/** Convert the JSON Schema of a run configuration to form fields. Pure. */

import { number } from "@/format";
import type { Condition } from "@/forms/conditions";

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
  additionalProperties?: JsonSchema | boolean;
  propertyNames?: JsonSchema;
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
  "x-essential"?: boolean;
  "x-order"?: string;
  "x-when"?: Condition[];
};

/** `table`: objects by name. `list`: objects in an array. */
type FieldKind = "integer" | "number" | "text" | "choice" | "switch" | "numbers" | "extensions" | "table" | "list" | "json";

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
  /** Whether the form shows the field first, outside the collapsed sections. */
  isEssential: boolean;
  /** Conditions under which the field applies, with those of its section; all must hold. */
  when: Condition[];
  /** Fields of each object of a table or list; their paths begin inside the object. */
  columns?: Field[];
  /** For a table: path of the list with the order of its names. */
  order?: string;
};

export type Section = {
  name: string;
  title: string;
  help: string;
  fields: Field[];
  /** The optional part of the configuration that contains this field; null instead of an object if absent. */
  optionalPart?: string;
};

export const isConfig = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

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

/** The schema of the objects in an array or a mapping; undefined for other values. */
function objectsIn(schema: JsonSchema, root: JsonSchema): { kind: "table" | "list"; schema: JsonSchema } | undefined {
  const { items, additionalProperties: named } = schema;
  if (items && !schema["x-choices"] && resolved(items, root).properties) return { kind: "list", schema: resolved(items, root) };
  if (typeof named !== "object" || !resolved(named, root).properties) return undefined;
  return { kind: "table", schema: resolved(named, root) };
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

function fieldOf(path: string, name: string, raw: JsonSchema, root: JsonSchema, given: unknown, when: Condition[] = []): Field {
  const schema = resolved(raw, root);
  const real = schema.anyOf?.find((each) => each.type !== "null");
  const inner = real ? { ...schema, ...real, anyOf: undefined } : schema;
  const objects = objectsIn(inner, root);
  const kind = objects?.kind ?? kindOf(inner);
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
    isEssential: schema["x-essential"] ?? false,
    when: [...when, ...(schema["x-when"] ?? [])],
    columns: objects && sectionOf("", "", objects.schema, root).flatMap((section) => section.fields),
    order: schema["x-order"],
  };
}

/** Return the fields without the orders of tables, which are edited in the tables. */
function withoutOrders(fields: Field[]): Field[] {
  const orders = fields.map((field) => field.order);
  return fields.filter((field) => !orders.includes(field.path));
}

function sectionOf(path: string, name: string, raw: JsonSchema, root: JsonSchema, above: Condition[] = []): Section[] {
  const schema = resolved(raw, root);
  const given = isConfig(raw.default) ? raw.default : {};
  const when = [...above, ...(raw["x-when"] ?? [])];
  const fields: Field[] = [];
  const below: Section[] = [];
  for (const [key, property] of Object.entries(schema.properties ?? {})) {
    const place = path ? `${path}.${key}` : key;
    if (resolved(property, root).properties)
      below.push(...sectionOf(place, key, { ...property, default: given[key] ?? property.default }, root, when));
    else fields.push(fieldOf(place, key, property, root, given[key], when));
  }
  return [{ name: path, title: words(name), help: schema.description ?? "", fields: withoutOrders(fields) }, ...below];
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
  if (loose.length > 0) sections.push({ name: "", title: "Length and seed", help: "", fields: withoutOrders(loose) });
  return sections;
}
