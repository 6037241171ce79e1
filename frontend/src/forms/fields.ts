/** The essential fields of a run configuration, which have inputs in the launch form. Pure. */

import { number } from "@/format";
import { applies, type Condition, type Config, isNullable, type JsonSchema, resolved, valueAt } from "@/forms/schema";

export type Field = {
  /** Dotted path in the configuration: `fleet.num_workers`. */
  path: string;
  title: string;
  help: string;
  unit: string;
  kind: "number" | "numbers" | "text" | "choice" | "switch";
  choices: string[];
  isNullable: boolean;
  /** Bounds of a number as text: `1 – 1,024`. */
  range: string;
};

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

/** The kind of a field's input; undefined for objects and lists of objects, which are edited as YAML only. */
function kindOf({ type, enum: choices, items }: JsonSchema): Field["kind"] | undefined {
  if (choices) return "choice";
  if (type === "boolean") return "switch";
  if (type === "integer" || type === "number") return "number";
  if (type === "string") return "text";
  return type === "array" && (items?.type === "integer" || items?.type === "number") ? "numbers" : undefined;
}

/** The essential fields that apply to a configuration, in the order of the schema. */
export function essentialsOf(root: JsonSchema, config: Config): Field[] {
  const walk = (raw: JsonSchema, path: string, above: Condition[]): Field[] => {
    const when = [...above, ...(raw["x-when"] ?? [])];
    const schema = resolved(raw, root);
    if (!applies(when, config)) return [];
    if (schema.properties) {
      if (isNullable(raw) && (valueAt(config, path) ?? null) === null) return [];
      return Object.entries(schema.properties).flatMap(([key, each]) => walk(each, path ? `${path}.${key}` : key, when));
    }
    const kind = kindOf(schema);
    if (!kind || !schema["x-essential"]) return [];
    const field: Field = {
      path,
      title: schema.title ?? path,
      help: schema.description ?? "",
      unit: schema["x-unit"] ?? "",
      kind,
      choices: (schema.enum ?? []).map(String),
      isNullable: isNullable(raw),
      range: rangeOf(kind === "numbers" ? (schema.items ?? {}) : schema),
    };
    return [field];
  };
  return walk(root, "", []);
}

/** A value as the text of its input. */
export function textOf({ kind }: Field, value: unknown): string {
  if (value === null || value === undefined) return "";
  if (kind === "numbers" && Array.isArray(value)) return value.join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** The value of an input's text; text that is no number stays text, which the server refuses. */
export function valueOfText({ kind, isNullable: mayBeNull }: Field, text: string): unknown {
  const numberOf = (word: string) => (word !== "" && Number.isFinite(Number(word)) ? Number(word) : word);
  if (text.trim() === "" && mayBeNull) return null;
  if (kind === "number") return numberOf(text.trim().replaceAll(",", ""));
  if (kind === "numbers")
    return text
      .split(/[\s,;]+/)
      .filter(Boolean)
      .map(numberOf);
  return text;
}
