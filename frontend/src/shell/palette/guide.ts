/** Commands that open the guide: its pages, and the terms of its glossary. Pure. */

import { CONTENTS } from "@/pages/guide/contents";
import { anchorOf, GLOSSARY } from "@/pages/guide/glossary";
import { addressOf } from "@/pages/guide/places";
import type { Command } from "@/shell/palette/commands";

/** Pages that do something come before those that describe it. */
const COST = 3;

/** The pages and terms; the subjects of a page match only as they are typed, since most letters occur in them. */
export function guideCommands(typed: string, open: (address: string) => void): Command[] {
  const pages = CONTENTS.flatMap(({ pages }) => pages).map(
    ({ title, page, covers }): Command => ({
      id: `guide:${page}`,
      group: "Guide",
      title,
      cost: COST,
      note: covers,
      words: typed && covers.toLowerCase().includes(typed.toLowerCase()) ? covers : undefined,
      act: () => open(addressOf(page)),
    }),
  );
  const terms = GLOSSARY.map(
    ({ words: [word = "", ...others], meaning }): Command => ({
      id: `term:${word}`,
      group: "Guide",
      title: [word, ...others].join(", "),
      cost: COST,
      note: meaning,
      act: () => open(addressOf("glossary", anchorOf(word))),
    }),
  );
  return [...pages, ...terms];
}
