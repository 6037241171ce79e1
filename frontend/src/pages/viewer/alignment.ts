/** Align sequences of one prompt: shared prefixes and divergences. */

/**
 * For each token of each row, the number of rows that share the prefix up to and including it.
 *
 * The rows are paths of a trie, and the number counts the paths through a node: it never
 * rises along a row, and falls where another row diverges.
 */
export function sharedBy(rows: readonly (readonly number[])[]): number[][] {
  const found: number[][] = rows.map(() => []);
  let open: number[][] = rows.length > 0 ? [rows.map((_, index) => index)] : [];
  for (let place = 0; open.length > 0; place += 1) {
    const next: number[][] = [];
    for (const members of open) {
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
    open = next;
  }
  return found;
}

/** The positions of a row at which other rows diverge from it. */
export function partings(shared: readonly number[], rows: number): number[] {
  const found: number[] = [];
  shared.forEach((count, place) => {
    if (count < (place === 0 ? rows : (shared[place - 1] ?? rows))) found.push(place);
  });
  return found;
}

/** The next (or previous) position in an ordered list, wrapping around; null if empty. */
export function neighbour(places: readonly number[], at: number, direction: 1 | -1): number | null {
  if (places.length === 0) return null;
  if (direction === 1) return places.find((place) => place > at) ?? places[0] ?? null;
  return places.findLast((place) => place < at) ?? places.at(-1) ?? null;
}
