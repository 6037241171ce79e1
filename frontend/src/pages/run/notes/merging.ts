/** Say what is to be done when two people write notes at once. Pure. */

/** Both texts, theirs first, with a line between them. */
export function both(theirs: string, mine: string): string {
  if (theirs.trim() === "") return mine;
  if (mine.includes(theirs)) return mine;
  return `${theirs.trimEnd()}\n\n---\n\n${mine}`;
}

/** `user:olga` as people say it. */
export function authorName(author: string): string {
  return author.replace(/^user:/, "");
}
