/** The contents of the docs: the tables of their index. */

import index from "../../../../docs/README.md?raw";
import { targetOf } from "./places";

export type Listed = {
  title: string;
  page: string;
  /** The subjects of the page. */
  covers: string;
};
export type Section = { heading: string; pages: Listed[] };

const LINE = /^(?:#{2,} (.+)|\*\*(.+)\*\*|\| \[([^\]]+)\]\(([^)]+)\) \| (.+) \|)$/gm;

/** The first pages to read, which the index names in its text. */
const FIRST: Section = {
  heading: "Start",
  pages: [
    { title: "Quickstart", page: "quickstart", covers: "train a policy in ten minutes, and pause a run" },
    { title: "Glossary", page: "glossary", covers: "terms of the product, states of a run" },
    { title: "Architecture", page: "architecture", covers: "the system on one page" },
  ],
};

/** The sections of an index with their pages. Pure. */
export function sectionsOf(markdown: string): Section[] {
  const found: Section[] = [];
  for (const [, heading, group, title, href = "", covers = ""] of markdown.matchAll(LINE)) {
    const target = title && targetOf("", href);
    if (!target) found.push({ heading: heading ?? group ?? "", pages: [] });
    else if (target.kind === "page") found.at(-1)?.pages.push({ title, page: target.page, covers: covers.replaceAll("`", "") });
  }
  return found.filter(({ pages }) => pages.length > 0);
}

export const CONTENTS = [FIRST, ...sectionsOf(index)];
