/** Completion of keys and values in the YAML of a configuration, from its JSON Schema. Pure. */

import { rangeOf } from "@/forms/fields";
import { isNullable, type JsonSchema, resolved, schemaAt } from "@/forms/schema";

export type Option = { label: string; detail: string; info: string; insert: string };
export type Completions = { from: number; options: Option[] };

const LINE = /^(\s*)((?:- +)*)(?:([\w./:-]+|"[^"]*"|'[^']*'):(?=\s|$))?/;
/** The text before the cursor: indentation, dashes, a key with its colon, and the word that is typed. */
const TYPED = /^(\s*(?:- +)*)(?:([\w.-]+):\s+)?([^\s"'#{}[\],]*)$/;
const unquoted = (key: string) => key.replace(/^(["'])(.*)\1$/, "$2");

/** The column of a line's key, and the key. */
function keyOf(line: string): { column: number; key: string | undefined; isEntry: boolean } {
  const [, indent = "", dashes = "", key] = LINE.exec(line) ?? [];
  return { column: indent.length + dashes.length, key: key && unquoted(key), isEntry: dashes !== "" };
}

/** The keys above a column, from the outermost, and the other keys of the same mapping. */
function around(lines: string[], at: number, column: number): { parents: string[]; siblings: string[] } {
  const siblings: string[] = [];
  const parents: string[] = [];
  const isEmpty = (line: string) => /^\s*(#.*)?$/.test(line);
  let least = column;
  let isOwn = !keyOf(lines[at] ?? "").isEntry;
  for (let above = at - 1; above >= 0 && least > 0; above -= 1) {
    const line = lines[above] ?? "";
    if (isEmpty(line)) continue;
    const { column: other, key, isEntry } = keyOf(line);
    if (other === column && parents.length === 0 && isOwn && key) siblings.push(key);
    if (other === column && isEntry) isOwn = false;
    const start = isEntry ? line.search(/\S/) : other;
    if (key && other < least) {
      parents.unshift(key);
      least = other;
    } else if (isEntry && start < least) least = start + 1;
  }
  if (column === 0) siblings.push(...lines.slice(0, at).flatMap((line) => (keyOf(line).column === 0 ? (keyOf(line).key ?? []) : [])));
  for (const line of lines.slice(at + 1)) {
    if (isEmpty(line)) continue;
    const { column: other, key, isEntry } = keyOf(line);
    if (other < column || (isEntry && other <= column)) break;
    if (other === column && key) siblings.push(key);
  }
  return { parents, siblings };
}

function optionOf(key: string, raw: JsonSchema, root: JsonSchema): Option {
  const schema = resolved(raw, root);
  const standard = schema.default === undefined || schema.properties ? "" : `Default ${JSON.stringify(schema.default)}.`;
  const range = rangeOf(schema);
  const info = [schema.description, range && `${range}.`, standard].filter(Boolean).join(" ");
  return { label: key, detail: schema["x-unit"] ?? schema.type ?? "", info, insert: schema.properties ? `${key}:\n` : `${key}: ` };
}

/** The values that a schema lists. */
function valuesOf(raw: JsonSchema, root: JsonSchema): string[] {
  const schema = resolved(raw, root);
  const listed = [...(schema.enum ?? []), ...(schema["x-choices"] ?? [])].map(String);
  const standard = schema.default === undefined || typeof schema.default === "object" ? [] : [String(schema.default)];
  return [...new Set([...listed, ...(schema.type === "boolean" ? ["true", "false"] : standard), ...(isNullable(raw) ? ["null"] : [])])];
}

/** The completions at an offset; `names` are further values by path. Null where nothing completes. */
export function completionsAt(text: string, offset: number, root: JsonSchema, names: Record<string, string[]> = {}): Completions | null {
  const before = text.slice(0, offset).split("\n");
  const lines = text.split("\n");
  const at = before.length - 1;
  const found = TYPED.exec(before[at] ?? "");
  if (!found) return null;
  const [, lead = "", key, word = ""] = found;
  const { parents, siblings } = around(lines, at, lead.length);
  const from = offset - word.length;
  if (key) {
    const path = [...parents, key];
    const schema = schemaAt(root, path);
    if (!schema) return null;
    const values = [...new Set([...valuesOf(schema, root), ...(names[path.join(".")] ?? [])])];
    return { from, options: values.map((label) => ({ label, detail: "", info: "", insert: label })) };
  }
  const parent = schemaAt(root, parents);
  const place = parent && resolved(parent, root);
  const object = place?.items ? resolved(place.items, root) : place;
  const known = Object.entries(object?.properties ?? {}).filter(([name]) => !siblings.includes(name));
  return { from, options: known.map(([name, each]) => optionOf(name, each, root)) };
}
