/** Links to the documentation, which the server shows under /guide when its site is built. */

/** The pages that the dashboard links to, by their path in `docs/`. A test checks that each exists. */
export const GUIDE_PAGES = [
  "README",
  "howto/alerts",
  "howto/atropos",
  "howto/cluster",
  "howto/lessons",
  "howto/settings-and-keys",
  "operate/troubleshooting",
  "start/bad-run",
  "start/environment",
  "start/first-run",
  "start/trainer",
] as const;

export type GuidePage = (typeof GUIDE_PAGES)[number];

/** The address of a page; the README is the home page of the site. */
export const addressOfGuide = (page: GuidePage): string => (page === "README" ? "/guide/" : `/guide/${page}.html`);
