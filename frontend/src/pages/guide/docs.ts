/** The docs as they were when the dashboard was built: each page is loaded when it is opened. */

import glossary from "../../../../docs/glossary.md?raw";
import index from "../../../../docs/README.md?raw";
import { nameOf } from "./places";

const FOLDER = "../../../../docs/";
const texts = import.meta.glob<string>(["../../../../docs/**/*.md", "!../../../../docs/README.md", "!../../../../docs/glossary.md"], {
  query: "?raw",
  import: "default",
});
const urls = import.meta.glob<string>(["../../../../docs/images/*", "../../../../docs/reference/*board.json"], {
  query: "?url",
  import: "default",
  eager: true,
});

const PAGES = new Map(Object.entries(texts).map(([path, load]) => [nameOf(path.slice(FOLDER.length)), load]));
// Read by the contents, the palette and the terms as well.
PAGES.set("", () => Promise.resolve(index));
PAGES.set("glossary", () => Promise.resolve(glossary));

/** Loads the Markdown of a page; undefined if there is no such page. */
export const loaderOf = (page: string): (() => Promise<string>) | undefined => PAGES.get(page);

/** The URL of a file of the docs; undefined if the dashboard does not contain it. */
export const urlOf = (path: string): string | undefined => urls[FOLDER + path];
