/** Text of a token for display. Pure. */

import { visible } from "@/format";

/** The text with symbols for line breaks and tabs; the breaks themselves are kept. */
export function tokenText(text: string): string {
  return visible(text).replace(/\t/g, "\u21e5\t").replace(/\n/g, "\u23ce\n");
}
