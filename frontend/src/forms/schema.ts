/** The JSON Schema of a run configuration: conditions, parts at a path, defaults and the edited form. Pure. */

/** A condition on the value at a dotted path: `is` one of the values, or `not` one of them. */
export type Condition = { field: string; is?: unknown[]; not?: unknown[] };

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
  default?: unknown;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  "x-unit"?: string;
  "x-choices"?: string[];
  /** Whether the launch form has an input for the field. */
  "x-essential"?: boolean;
  /** For a table: path of the list with the order of its names. */
  "x-order"?: string;
  "x-when"?: Condition[];
};
export type Config = Record<string, unknown>;

export const isConfig = (value: unknown): value is Config => typeof value === "object" && value !== null && !Array.isArray(value);

/** The value at a dotted path; undefined if the path leads nowhere. */
export function valueAt(config: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>((value, key) => (isConfig(value) ? value[key] : undefined), config);
}

/** Return whether a value meets a condition. */
function holds({ is, not }: Condition, value: unknown): boolean {
  // A missing optional part and null are the same.
  const known = value ?? null;
  if (is && !is.includes(known)) return false;
  return !not?.includes(known);
}

/** Return whether a field with these conditions applies to a configuration: all of them hold. */
export function applies(when: Condition[], config: unknown): boolean {
  return when.every((condition) => holds(condition, valueAt(config, condition.field)));
}

/** A schema without its reference and without "or null". */
export function resolved(schema: JsonSchema, root: JsonSchema): JsonSchema {
  const real = schema.anyOf?.find((each) => each.type !== "null");
  const { $ref, anyOf: _any, ...inner } = real ? { ...schema, ...real } : schema;
  const target = $ref ? root.$defs?.[$ref.replace("#/$defs/", "")] : undefined;
  return target ? { ...target, ...inner } : inner;
}

export const isNullable = (schema: JsonSchema) => schema.anyOf?.some(({ type }) => type === "null") ?? false;

/** The schema of the objects in a table or in a list. */
function innerOf({ additionalProperties, items }: JsonSchema): JsonSchema | undefined {
  return items ?? (isConfig(additionalProperties) ? (additionalProperties as JsonSchema) : undefined);
}

/** The schema at a path of keys, through the entries of lists; undefined if the path leads nowhere. */
export function schemaAt(root: JsonSchema, keys: string[]): JsonSchema | undefined {
  let schema: JsonSchema | undefined = root;
  for (const key of keys) {
    let place: JsonSchema = resolved(schema, root);
    if (place.items) place = resolved(place.items, root);
    schema = place.properties?.[key] ?? innerOf(place);
    if (!schema) return undefined;
  }
  return schema;
}

/** A configuration with the schema's defaults for missing fields; null stays. */
export function completed(config: Config, root: JsonSchema): Config {
  const walk = (value: unknown, raw: JsonSchema, given: unknown): unknown => {
    const schema = resolved(raw, root);
    const standard = given === undefined ? schema.default : given;
    if (value === undefined && !schema.properties) return standard;
    const own = value === undefined ? (standard === null ? null : {}) : value;
    const inner = innerOf(schema);
    if (inner && Array.isArray(own)) return own.map((each) => walk(each, inner, undefined));
    if (!isConfig(own)) return own;
    if (!schema.properties) {
      if (!inner) return own;
      return Object.fromEntries(Object.entries(own).map(([key, each]) => [key, walk(each, inner, undefined)]));
    }
    const below = isConfig(standard) ? standard : {};
    const known = Object.entries(schema.properties).map(([key, each]) => [key, walk(own[key], each, below[key])]);
    return { ...Object.fromEntries(known.filter(([, each]) => each !== undefined)), ...rest(own, schema.properties) };
  };
  return walk(config, root, undefined) as Config;
}

function rest(own: Config, known: Record<string, JsonSchema>): Config {
  return Object.fromEntries(Object.entries(own).filter(([key]) => !(key in known)));
}

/** The tables with an order: path of the table and path of the list of its names. */
export function orderedTables(root: JsonSchema): [table: string, order: string][] {
  const walk = (raw: JsonSchema, path: string): [string, string][] => {
    const own: [string, string][] = raw["x-order"] ? [[path, raw["x-order"]]] : [];
    const below = Object.entries(resolved(raw, root).properties ?? {});
    return [...own, ...below.flatMap(([key, each]) => walk(each, path ? `${path}.${key}` : key))];
  };
  return walk(root, "");
}

/** A configuration with another value at a dotted path. */
export function withAt(config: Config, path: string, value: unknown): Config {
  const [key = "", ...below] = path.split(".");
  const inner = config[key];
  return { ...config, [key]: below.length > 0 ? withAt(isConfig(inner) ? inner : {}, below.join("."), value) : value };
}

/**
 * A complete configuration as it is edited: without the fields that do not apply, and with the
 * entries of tables in their order instead of the lists of their names.
 */
export function edited(config: Config, root: JsonSchema): Config {
  const tables = orderedTables(root);
  const orders = tables.map(([, order]) => order);
  let whole = config;
  for (const [path, order] of tables) {
    const [table, names] = [valueAt(config, path), valueAt(config, order)];
    if (!isConfig(table)) continue;
    const named = Array.isArray(names) ? names.filter((name): name is string => typeof name === "string" && name in table) : [];
    const keys = [...new Set([...named, ...Object.keys(table)])];
    whole = withAt(whole, path, Object.fromEntries(keys.map((key) => [key, table[key]])));
  }
  const walk = (value: unknown, raw: JsonSchema, path: string): unknown => {
    const { properties } = resolved(raw, root);
    if (!properties || !isConfig(value)) return value;
    const kept = Object.entries(value).filter(([key, each]) => {
      const schema = properties[key];
      if (!schema) return true;
      const isAbsentPart = each === null && resolved(schema, root).properties !== undefined;
      return applies(schema["x-when"] ?? [], config) && !isAbsentPart && !orders.includes(`${path}${key}`);
    });
    return Object.fromEntries(kept.map(([key, each]) => [key, walk(each, properties[key] ?? {}, `${path}${key}.`)]));
  };
  return walk(whole, root, "") as Config;
}

/** The edited configuration with the lists of names that follow from the order of its tables. */
export function withOrders(config: Config, root: JsonSchema): Config {
  return orderedTables(root).reduce((whole, [path, order]) => {
    const table = valueAt(whole, path);
    return isConfig(table) && valueAt(whole, order) === undefined ? withAt(whole, order, Object.keys(table)) : whole;
  }, config);
}
