/** Find formulas in Markdown that models write. Pure. */

/** Code, where nothing is a formula, and formulas of at most 2,000 characters in the delimiters of TeX. */
const PIECES =
  /(```[\s\S]*?(?:```|$)|~~~[\s\S]*?(?:~~~|$)|`[^`\n]*`)|\\\[([\s\S]{1,2000}?)\\\]|\\\(([\s\S]{1,2000}?)\\\)|\$\$([\s\S]{1,2000}?)\$\$|(?<![\\$\w])\$(?![\s$])([^$\n]*?[^\s\\$])\$(?![\d$])/g;

/** Whether a text may have formulas, which take a library to draw. */
export const mayHaveMath = (text: string): boolean => /\$[^$]+\$|\\\(|\\\[/.test(text);

/**
 * Write all formulas of a text in `$$`, as remark-math reads them: a block on lines of its own.
 *
 * A single dollar begins a formula as in Pandoc: no space after the first and before the second, and no digit behind it, so
 * that prices stay text.
 */
export function withMath(text: string): string {
  return text.replace(PIECES, (whole, code, bracketed, parenthesised, block, inline) => {
    if (code !== undefined) return whole;
    const displayed = bracketed ?? block;
    if (displayed !== undefined) return `\n$$\n${displayed.trim()}\n$$\n`;
    return `$$${(parenthesised ?? inline).trim()}$$`;
  });
}
