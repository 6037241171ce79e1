/** Resolve concurrent edits of notes. Pure. */

/** Both texts, theirs first, with a separator line. */
export function both(theirs: string, mine: string): string {
  if (theirs.trim() === "") return mine;
  if (mine.includes(theirs)) return mine;
  return `${theirs.trimEnd()}\n\n---\n\n${mine}`;
}

/** The display name of `user:olga`. */
export function authorName(author: string): string {
  return author.replace(/^user:/, "");
}
