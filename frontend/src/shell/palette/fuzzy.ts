/** Fuzzy matching of typed letters against a title: in order, not necessarily adjacent. Pure. */

type Fit = {
  score: number;
  /** Indices of the matched letters in the title. */
  at: number[];
};

const FOLLOWS = 8;
const STARTS = 6;
/** More than the tie-breaker takes from a title of 80 letters: "Kill …" is before "to-be-killed". */
const BEGINS_TITLE = 4;
const LOOSE = 1;
/** Tie-breaker in favour of the shorter title. */
const LETTER_COST = 0.05;
const GAP_COST = 0.15;

function startsWord(text: string, place: number): boolean {
  return place === 0 || /[\s\-_./:&(]/.test(text[place - 1] ?? "");
}

function fitFrom(letters: string, text: string, start: number): Fit | null {
  const at: number[] = [];
  let score = 0;
  for (const letter of letters) {
    const last = at.at(-1);
    const place = text.indexOf(letter, last === undefined ? start : last + 1);
    if (place < 0) return null;
    score += last !== undefined && place === last + 1 ? FOLLOWS : startsWord(text, place) ? STARTS : LOOSE;
    if (last !== undefined) score -= GAP_COST * (place - last - 1);
    at.push(place);
  }
  if (start === 0 && text.startsWith(letters)) score += BEGINS_TITLE;
  return { score, at };
}

/** The best match of one word at any position in the title. */
function fitWord(letters: string, text: string): Fit | null {
  let best: Fit | null = null;
  for (let start = text.indexOf(letters[0] ?? ""); start >= 0; start = text.indexOf(letters[0] ?? "", start + 1)) {
    const fit = fitFrom(letters, text, start);
    if (fit === null) break;
    if (best === null || fit.score > best.score) best = fit;
  }
  return best;
}

/** The match of the typed text with a title; null if any word does not match. */
export function fitOf(typed: string, title: string): Fit | null {
  const text = title.toLowerCase();
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = words.map((word) => fitWord(word, text));
  if (fits.some((one) => one === null)) return null;
  const found = fits as Fit[];
  return {
    score: found.reduce((sum, one) => sum + one.score, 0) - LETTER_COST * text.length,
    at: [...new Set(found.flatMap((one) => one.at))].sort((a, b) => a - b),
  };
}
