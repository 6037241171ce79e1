/** Commands that open the guide: its pages, and the terms of its glossary. Pure. */

import { CONTENTS } from "@/pages/guide/contents";
import { anchorOf, GLOSSARY } from "@/pages/guide/glossary";
import { addressOf } from "@/pages/guide/places";
import type { Command } from "@/shell/palette/commands";

/** The pages and terms; the subjects of a page match only as they are typed, since most letters occur in them. */
export function guideCommands(typed: string, open: (address: string) => void): Command[] {
  const pages = CONTENTS.flatMap(({ pages }) => pages).map(
    ({ title, page, covers }): Command => ({
      id: `guide:${page}`,
      group: "Guide",
      title,
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
      note: meaning,
      act: () => open(addressOf("glossary", anchorOf(word))),
    }),
  );
  return [...pages, ...terms];
}
