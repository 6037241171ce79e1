/** Completions for the filter. Pure. */

import type { components } from "@/api/schema";
import { number } from "@/format";

export type Qualifier = components["schemas"]["QualifierRow"];
export type ValueRow = components["schemas"]["ValueRow"];

/** The filter term at the cursor. */
export type Asked = {
  /** Start of the replaced text. */
  start: number;
  end: number;
  /** Set once an operator is typed: the qualifier whose values are completed. */
  qualifier: Qualifier | null;
  part: string;
  negated: boolean;
};

export type Offer = { insert: string; label: string; note: string };

const QUALIFIED = /^(-?)([a-z]+(?:\.[^\s",:=~<>]*)?)(:?(?:>=|<=|[<>])|[:=~])(.*)$/i;

/** The cursor position. */
export function askedAt(text: string, cursor: number, qualifiers: Qualifier[]): Asked {
  const before = text.slice(0, cursor);
  const start = wordStart(before);
  const rest = text.slice(cursor).match(/^[^\s,"]*/)?.[0].length ?? 0;
  const word = before.slice(start);
  const found = word.match(QUALIFIED);
  const qualifier = found ? (qualifiers.find(({ name }) => name === found[2] || name === found[2]?.toLowerCase()) ?? null) : null;
  if (!found || !qualifier) {
    const negated = word.startsWith("-");
    return { start: start + (negated ? 1 : 0), end: cursor + rest, qualifier: null, part: word.slice(negated ? 1 : 0), negated };
  }
  const values = found[4] ?? "";
  const part = values.slice(values.lastIndexOf(",") + 1).replace(/"/g, "");
  const from = cursor - (values.length - (values.lastIndexOf(",") + 1));
  return { start: from, end: cursor + rest, qualifier, part, negated: found[1] === "-" };
}

/** Start of the last word; quoted spaces are part of it. */
function wordStart(text: string): number {
  let start = 0;
  let quoted = false;
  for (let i = 0; i < text.length; i += 1) {
    if (text[i] === '"') quoted = !quoted;
    else if (/\s/.test(text[i] as string) && !quoted) start = i + 1;
  }
  return start;
}

const AGES = ["1h", "1d", "7d", "30d"];
const MOST = 24;

/** The completions; `values` are the server's for this qualifier. */
export function offers(asked: Asked, qualifiers: Qualifier[], values: ValueRow[]): Offer[] {
  const { qualifier, part } = asked;
  const has = (text: string) => text.toLowerCase().includes(part.toLowerCase());
  if (!qualifier) {
    return qualifiers
      .filter(({ name }) => name.toLowerCase().startsWith(part.toLowerCase()))
      .map(({ name, form, operators, meaning, example }) => ({
        // A name such as `meta` continues with a key.
        insert: name + (form === "value" && !name.includes(".") ? "." : (operators[0] ?? ":")),
        label: example,
        note: meaning,
      }))
      .slice(0, MOST);
  }
  if (qualifier.form === "choice") {
    return qualifier.choices.filter(has).map((value) => ({ insert: `${value} `, label: value, note: "" }));
  }
  if (qualifier.form === "time") {
    return AGES.filter(has).map((age) => ({ insert: `${age} `, label: age, note: "an age, or a date such as 2026-03-01" }));
  }
  return values
    .filter(({ value }) => has(value) && value !== "")
    .map(({ value, count }) => ({
      insert: `${quoted(value)} `,
      label: value,
      note: number(count),
    }));
}

/** The filter and cursor after a completion. */
export function taken(text: string, asked: Asked, offer: Offer): { text: string; cursor: number } {
  const tail = text.slice(asked.end);
  const insert = offer.insert.endsWith(" ") && tail.startsWith(" ") ? offer.insert.trimEnd() : offer.insert;
  const head = text.slice(0, asked.start) + insert;
  return { text: head + tail, cursor: head.length };
}

/** A value of a term, quoted if it has spaces, commas or characters of comparisons. */
export const quoted = (value: string): string => (/[\s,"<>=~]/.test(value) ? `"${value.replaceAll('"', "")}"` : value);

/** A term of a filter: `env:"two words"`. */
export const term = (name: string, value: string | number, operator = ":"): string => `${name}${operator}${quoted(String(value))}`;
