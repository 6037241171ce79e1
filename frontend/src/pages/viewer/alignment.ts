/** Sequences of one prompt beside each other: which beginnings they share, and where they part. */

/**
 * For each token of each row, with how many rows it shares everything up to and including itself.
 *
 * The rows are the paths of a trie, and the number is how many of them go through the node: it never
 * rises along a row, and falls where another row parts from it.
 */
export function sharedBy(rows: readonly (readonly number[])[]): number[][] {
  const found: number[][] = rows.map(() => []);
  let together: number[][] = rows.length > 0 ? [rows.map((_, index) => index)] : [];
  for (let place = 0; together.length > 0; place += 1) {
    const next: number[][] = [];
    for (const members of together) {
      const byToken = new Map<number, number[]>();
      for (const row of members) {
        const token = rows[row]?.[place];
        if (token === undefined) continue;
        const same = byToken.get(token);
        if (same) same.push(row);
        else byToken.set(token, [row]);
      }
      for (const same of byToken.values()) {
        for (const row of same) found[row]?.push(same.length);
        next.push(same);
      }
    }
    together = next;
  }
  return found;
}

/** The places of a row at which fewer rows go on with it than before. */
export function partings(shared: readonly number[], rows: number): number[] {
  const found: number[] = [];
  shared.forEach((count, place) => {
    if (count < (place === 0 ? rows : (shared[place - 1] ?? rows))) found.push(place);
  });
  return found;
}

/** The next place after (or before) one in an ordered list, going round at its ends; null of none. */
export function neighbour(places: readonly number[], at: number, direction: 1 | -1): number | null {
  if (places.length === 0) return null;
  if (direction === 1) return places.find((place) => place > at) ?? places[0] ?? null;
  return places.findLast((place) => place < at) ?? places.at(-1) ?? null;
}
