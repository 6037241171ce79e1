/** Render untrusted text safely: invisible characters are named, and control characters have no effect. */

// Controls, soft hyphens, direction marks, zero width, line separators, fillers, tags, variation selectors, unpaired surrogates.
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|\udb40[\udc00-\uddef]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

const NAMES: Record<number, string> = { 0x1b: "ESC", 0x7f: "DEL", 0x0d: "CR", 0x00: "NUL", 0x200b: "ZWSP", 0xfeff: "BOM" };

function nameOf(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return `\u27e8${NAMES[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`}\u27e9`;
}

/** The text with invisible and control characters written out. */
export function plain(text: string): string {
  return text.replace(UNSEEN, nameOf);
}

/** A token for display: line breaks and tabs get symbols, and the break is kept. */
export function pieceOf(text: string): string {
  return plain(text).replace(/\t/g, "\u21e5\t").replace(/\n/g, "\u23ce\n");
}

/** The first characters of a text; never splits a surrogate pair. */
export function cut(text: string, characters: number): string {
  if (text.length <= characters) return text;
  const last = text.charCodeAt(characters - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? characters - 1 : characters);
}
