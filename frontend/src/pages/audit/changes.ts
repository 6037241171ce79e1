/** Extract values before and after a change from the details of an event. Pure. */

export type Change = { name: string; before: string; after: string };

const text = (value: unknown) => (typeof value === "string" ? value : (JSON.stringify(value) ?? "–"));

/** The changes in the details: `{step: {before, after}}`, or `{from, to}` of a status. */
export function changesIn(details: Record<string, unknown>): Change[] {
  if (typeof details.from === "string" && typeof details.to === "string") {
    return [{ name: "status", before: details.from, after: details.to }];
  }
  return Object.entries(details).flatMap(([name, value]) => {
    if (typeof value !== "object" || value === null || !("before" in value) || !("after" in value)) return [];
    return [{ name, before: text(value.before), after: text(value.after) }];
  });
}
