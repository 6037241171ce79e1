/** Lists of registered wrappers and callbacks as rows of a form. Pure. */

/** A registered name and its arguments as JSON text. */
export type ExtensionRow = { kind: string; kwargs: string };

function argumentsText(kwargs: unknown): string {
  if (typeof kwargs === "string") return kwargs;
  const text = JSON.stringify(kwargs ?? {});
  return text === "{}" ? "" : text;
}

/** Return the rows of a field's text; null if it is not a list of objects with `kind`. */
export function rowsOf(answer: string): ExtensionRow[] | null {
  try {
    const list: unknown = JSON.parse(answer || "[]");
    if (!Array.isArray(list) || !list.every((each) => typeof each?.kind === "string")) return null;
    return list.map((each: { kind: string; kwargs?: unknown }) => ({ kind: each.kind, kwargs: argumentsText(each.kwargs) }));
  } catch {
    return null;
  }
}

/** Return the field's text for rows; arguments stay as they were typed until they are read. */
export function answerOfRows(rows: ExtensionRow[]): string {
  return JSON.stringify(rows);
}

/** Parse a field's text: the list of the configuration, or the problem of its first invalid row. */
export function readExtensions(answer: string): { value: unknown } | { problem: string } {
  const rows = rowsOf(answer);
  if (rows === null) return { problem: 'Enter a JSON list of objects, such as [{"kind": "module:…", "kwargs": {}}].' };
  const value = [];
  for (const [at, { kind, kwargs }] of rows.entries()) {
    if (kind === "") return { problem: `Row ${at + 1}: choose a name.` };
    try {
      const parsed: unknown = JSON.parse(kwargs.trim() || "{}");
      if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) throw new SyntaxError();
      value.push({ kind, kwargs: parsed });
    } catch {
      return { problem: `Row ${at + 1}: enter arguments as a JSON object, such as {"key": 1}.` };
    }
  }
  return { value };
}
