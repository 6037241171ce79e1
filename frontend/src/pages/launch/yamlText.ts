/** Parse and format a configuration as YAML 1.2; loaded on demand. Pure. */

import { isMap, isNode, LineCounter, parseDocument, stringify } from "yaml";
import { type Config, isConfig, placeText, type Read } from "@/pages/launch/configText";

/** Maximum number of resolved aliases: more could expand a small text into a huge configuration. */
const ALIASES_AT_MOST = 100;

export function yamlOf(config: Config): string {
  return stringify(config, { lineWidth: 0, aliasDuplicateObjects: false });
}

/** Path of the first number that JSON cannot represent. */
function unsayable(value: unknown, path = ""): string | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? undefined : path;
  if (typeof value !== "object" || value === null) return undefined;
  const entries: [string, unknown][] = Object.entries(value);
  return entries.map(([key, inner]) => unsayable(inner, path ? `${path}.${key}` : key)).find((found) => found !== undefined);
}

/** Return the configuration in a text, or its error with line and column. */
export function readYaml(text: string): Read {
  const counter = new LineCounter();
  const document = parseDocument(text, { lineCounter: counter, prettyErrors: false });
  const [wrong] = [...document.errors, ...document.warnings];
  if (wrong) {
    const { line, col } = counter.linePos(wrong.pos[0]);
    return { problem: `Invalid YAML at ${placeText(line, col)}: ${wrong.message}` };
  }
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: ALIASES_AT_MOST });
  } catch (error) {
    return { problem: `Cannot parse: ${error instanceof Error ? error.message : "?"}` };
  }
  if (!isConfig(value)) return { problem: "A mapping is required, such as seed: 1." };
  const path = unsayable(value);
  return path === undefined ? { config: value } : { problem: `${path} is not a finite number.` };
}

/** The position of a field's name in a text of either format; null if not found. */
export function placeOfField(text: string, path: string): string | null {
  const counter = new LineCounter();
  const document = parseDocument(text, { lineCounter: counter, prettyErrors: false });
  const keys = path.split(".");
  const last = keys.pop();
  const parent = keys.length === 0 ? document.contents : document.getIn(keys, true);
  if (!isMap(parent)) return null;
  const key = parent.items.map((pair) => pair.key).find((each) => isNode(each) && String(each.toJSON()) === last);
  if (!isNode(key) || !key.range) return null;
  const { line, col } = counter.linePos(key.range[0]);
  return placeText(line, col);
}
