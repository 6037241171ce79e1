/** Conditions under which fields apply, from the schema of a run configuration. Pure. */

/** A condition on the value at a dotted path: `is` one of the values, or `not` one of them. */
export type Condition = { field: string; is?: unknown[]; not?: unknown[] };

type Config = Record<string, unknown>;

const isConfig = (value: unknown): value is Config => typeof value === "object" && value !== null && !Array.isArray(value);

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

function listed(values: unknown[]): string {
  return values
    .map((value) => (value === "" || value === null ? "empty" : typeof value === "boolean" ? (value ? "on" : "off") : String(value)))
    .join(" or ");
}

/** The conditions as text, with the titles of their fields: `Policy is cnn or gru`. */
export function conditionsText(when: Condition[], titleOf: (path: string) => string): string {
  return when.map(({ field, is, not }) => `${titleOf(field)} is ${is ? listed(is) : `not ${listed(not ?? [])}`}`).join(" and ");
}
