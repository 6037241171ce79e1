/** Addresses of the docs within the dashboard. Pure. */

export type Target =
  /** Another page of the docs; the index has an empty name. */
  | { kind: "page"; page: string; hash: string }
  /** A file beside the pages, by its path in the docs. */
  | { kind: "file"; path: string }
  /** A file of the repository that is not part of the docs. */
  | { kind: "source"; path: string }
  | { kind: "outside"; url: string };

const INDEX = "README";
const ROOT = "http://repository/";
const DOCS = `${ROOT}docs/`;

/** The name of a page from its path in the docs: `howto/watching` for `howto/watching.md`. */
export const nameOf = (path: string): string => (path === `${INDEX}.md` ? "" : path.replace(/\.md$/, ""));

/** The path in the docs of a page. */
export const pathOf = (page: string): string => `${page || INDEX}.md`;

/** The target of a link or picture on a page of the docs. */
export function targetOf(page: string, href: string): Target {
  const { href: url, hash } = new URL(href, DOCS + pathOf(page));
  if (!url.startsWith(ROOT)) return { kind: "outside", url };
  if (!url.startsWith(DOCS)) return { kind: "source", path: url.slice(ROOT.length) };
  const path = url.slice(DOCS.length, hash ? -hash.length : undefined);
  return path.endsWith(".md") ? { kind: "page", page: nameOf(path), hash: decodeURIComponent(hash.slice(1)) } : { kind: "file", path };
}

/** The address of a page in the dashboard. */
export const addressOf = (page: string, hash = ""): string => `/guide${page && `/${page}`}${hash && `#${hash}`}`;
