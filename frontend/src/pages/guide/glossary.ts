/** The glossary of the docs, which the dashboard shows beside its own words. */

import text from "../../../../docs/glossary.md?raw";

export type Entry = {
  /** The term and its synonyms, as the glossary writes them. */
  words: string[];
  /** The definition as plain text. */
  meaning: string;
};

const ROW = /^\| ([^|]+) \| ([^|]+) \| [^|]+ \|$/gm;

/** Markdown of one line as plain text: the words of its links and code. */
const plain = (markdown: string): string => markdown.replace(/\[([^\]]+)\]\([^)]*\)/g, "$1").replaceAll("`", "");

/** The rows of the glossary's table. Pure. */
export function entriesOf(markdown: string): Entry[] {
  return [...markdown.matchAll(ROW)]
    .map(([, words = "", meaning = ""]) => ({ words: words.split(", "), meaning: plain(meaning) }))
    .filter(({ words }) => words[0] !== "term");
}

/** The anchor of a term on the glossary's page. */
export const anchorOf = (term: string): string => `term-${term.replace(/\W+/g, "-").toLowerCase()}`;

export const GLOSSARY = entriesOf(text);

/** The entry of a term; undefined if the glossary has none. */
export const entryOf = (term: string): Entry | undefined => GLOSSARY.find(({ words }) => words.includes(term));
