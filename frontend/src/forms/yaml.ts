/** A configuration as YAML 1.2: format, parse, change a value, and find the place of a path. Pure. */

import { Document, type ErrorCode, isAlias, isCollection, isMap, isNode, isScalar, isSeq, parseDocument, stringify, visit } from "yaml";
import { type Config, isConfig } from "@/forms/schema";

/** A range of characters. */
export type Place = { from: number; to: number };
/** The configuration of a text, or the first error with its place. */
export type Read = { config: Config; problem?: undefined } | { config?: undefined; problem: Place & { message: string } };

const LONGEST = 200_000;
const DEEPEST = 40;

/** Messages that name the remedy; the parser's own are used for other errors. */
const MESSAGES: Partial<Record<ErrorCode, string>> = {
  DUPLICATE_KEY: "Duplicate key: this mapping has the key twice.",
  TAB_AS_INDENT: "Tabs cannot indent YAML; use spaces.",
  TAG_RESOLVE_FAILED: "Tags such as !!name are not supported.",
  MULTIPLE_DOCS: "A single document is required; remove the line ---.",
};

function parse(text: string): Document {
  return parseDocument(text, { prettyErrors: false, stringKeys: true });
}

export function yamlOf(config: Config): string {
  const document = new Document(config, { aliasDuplicateObjects: false });
  visit(document, {
    Seq: (_key, list) => {
      list.flow = list.items.every((each) => isScalar(each));
    },
  });
  return document.toString({ lineWidth: 0, flowCollectionPadding: false });
}

/** The first number that JSON cannot represent, anchor or alias, or too deep a value. */
function unsupported(text: string, document: Document): (Place & { message: string }) | undefined {
  let found: (Place & { message: string }) | undefined;
  const refuse = (place: Place | undefined, message: string) => {
    found = { ...(place ?? { from: 0, to: 0 }), message };
    return visit.BREAK;
  };
  visit(document, {
    Node: (_key, node, path) => {
      if (isAlias(node) || node.anchor) {
        const from = isAlias(node) ? (node.range?.[0] ?? 0) : text.lastIndexOf("&", node.range?.[0]);
        return refuse({ from, to: from + 1 }, "Anchors and aliases are not supported; repeat the value.");
      }
      if (path.length > 2 * DEEPEST) return refuse(placeOfNode(node), `Nested too deeply: the limit is ${DEEPEST} levels.`);
      const value = isScalar(node) ? node.value : 0;
      if (typeof value !== "number") return undefined;
      if (!Number.isFinite(value)) return refuse(placeOfNode(node), "Not a finite number.");
      return Number.isInteger(value) && !Number.isSafeInteger(value)
        ? refuse(placeOfNode(node), "Out of range: an integer has at most 53 bits.")
        : undefined;
    },
  });
  return found;
}

/** Brackets, dashes or spaces that nest more deeply than the parser can follow. */
const TOO_DEEP = /(?:[[{]\s*){50}|^\s*(?:- ){50}|^ {400}/m;

export function readYaml(text: string): Read {
  if (text.length > LONGEST) {
    const message = `Too long: ${text.length.toLocaleString("en-US")} characters, the limit is ${LONGEST.toLocaleString("en-US")}.`;
    return { problem: { from: LONGEST, to: LONGEST + 1, message } };
  }
  const deep = text.search(TOO_DEEP);
  if (deep >= 0) return { problem: { from: deep, to: deep + 1, message: `Nested too deeply: the limit is ${DEEPEST} levels.` } };
  const document = parse(text);
  const [wrong] = [...document.errors, ...document.warnings].sort((one, other) => one.pos[0] - other.pos[0]);
  if (wrong) {
    const message = MESSAGES[wrong.code] ?? `Invalid YAML: ${wrong.message}`;
    return { problem: { from: wrong.pos[0], to: wrong.pos[1], message } };
  }
  const refused = unsupported(text, document);
  if (refused) return { problem: refused };
  const value: unknown = document.toJS() ?? {};
  if (isConfig(value)) return { config: value };
  return { problem: { from: 0, to: text.length, message: "A mapping is required, such as seed: 1." } };
}

/** Return a function that finds the place of a server's path, or of its nearest ancestor; undefined if there is none. */
export function placesIn(text: string): (path: string) => Place | undefined {
  const { contents } = parse(text);
  return (path) => placeOf(contents, path);
}

function placeOf(contents: unknown, path: string): Place | undefined {
  let node = contents;
  let rest = path;
  let place: Place | undefined;
  while (rest !== "") {
    if (isMap(node)) {
      // Keys contain dots: the longest one that fits is meant.
      const fitting = node.items
        .map((pair) => ({ pair, key: isScalar(pair.key) ? String(pair.key.value) : "" }))
        .filter(({ key }) => key !== "" && (rest === key || (rest.startsWith(key) && /[.[]/.test(rest.charAt(key.length)))))
        .sort((one, other) => other.key.length - one.key.length)[0];
      if (!fitting) break;
      place = placeOfNode(fitting.pair.key) ?? place;
      node = fitting.pair.value;
      rest = rest.slice(fitting.key.length).replace(/^\./, "");
    } else if (isSeq(node)) {
      const [whole = "", at] = /^\[?(\d+)\]?\.?/.exec(rest) ?? [];
      const item: unknown = at === undefined ? undefined : node.items[Number(at)];
      if (item === undefined) break;
      place = placeOfNode(item) ?? place;
      node = item;
      rest = rest.slice(whole.length);
    } else break;
  }
  return place;
}

function placeOfNode(node: unknown): Place | undefined {
  return isNode(node) && node.range ? { from: node.range[0], to: node.range[1] } : undefined;
}

/** The text with another value at a dotted path; the rest keeps its comments and form. */
export function withValue(text: string, path: string, value: unknown): string {
  const document = parse(text);
  const keys = path.split(".");
  const node = document.getIn(keys, true);
  const isInline = (isScalar(node) && !/^BLOCK/.test(node.type ?? "")) || (isCollection(node) && node.flow);
  if (isNode(node) && isInline && node.range) {
    const [from, to] = node.range;
    const isLines = typeof value === "string" && value.includes("\n");
    const written = isLines
      ? JSON.stringify(value)
      : stringify(value, {
          lineWidth: 0,
          defaultStringType: "PLAIN",
          collectionStyle: "flow",
          flowCollectionPadding: false,
        }).trim();
    return `${text.slice(0, from)}${/\s$/.test(text.slice(0, from)) ? "" : " "}${written}${text.slice(to)}`;
  }
  document.setIn(keys, document.createNode(value, { flow: true }));
  return document.toString({ lineWidth: 0, flowCollectionPadding: false });
}

/** The 1-based line of an offset. */
export function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split("\n").length;
}
