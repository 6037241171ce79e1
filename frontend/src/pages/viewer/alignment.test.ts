import { describe, expect, it } from "vitest";
import { neighbour, partings, sharedBy } from "@/pages/viewer/alignment";

/** Rows of few tokens, so that they often share beginnings; the same for the same seed. */
function rowsOf(seed: number): number[][] {
  let state = seed * 2654435761 + 1;
  const draw = (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  return Array.from({ length: draw(6) }, () => Array.from({ length: draw(9) }, () => draw(2)));
}

/** With how many tokens all rows begin. */
function commonBeginning(rows: number[][]): number {
  const first = rows[0] ?? [];
  const parted = first.findIndex((token, place) => rows.some((row) => row[place] !== token));
  return parted < 0 ? first.length : parted;
}

const SEEDS = Array.from({ length: 300 }, (_, seed) => seed);

describe("sequence alignment", () => {
  it.each(SEEDS)("matches the definition (%i)", (seed) => {
    const rows = rowsOf(seed);
    const found = sharedBy(rows);
    rows.forEach((row, index) => {
      const expected = row.map(
        (_, place) => rows.filter((other) => row.slice(0, place + 1).every((token, i) => other[i] === token)).length,
      );
      expect(found[index]).toEqual(expected);
    });
  });
  it.each(SEEDS)("counts decrease from the common prefix (%i)", (seed) => {
    const rows = rowsOf(seed);
    const common = commonBeginning(rows);
    sharedBy(rows).forEach((shared) => {
      shared.forEach((count, place) => {
        expect(count).toBeLessThanOrEqual(shared[place - 1] ?? rows.length);
      });
      expect(shared.slice(0, common).every((count) => count === rows.length)).toBe(true);
      expect(shared[common] ?? 0).toBeLessThan(Math.max(1, rows.length));
      for (const place of partings(shared, rows.length)) expect(place).toBeGreaterThanOrEqual(common);
    });
  });
  it("finds divergences", () => {
    const rows = [
      [1, 2, 3],
      [1, 2, 4],
      [1, 5],
    ];
    expect(sharedBy(rows)).toEqual([
      [3, 2, 1],
      [3, 2, 1],
      [3, 1],
    ]);
    expect(sharedBy(rows).map((shared) => partings(shared, 3))).toEqual([[1, 2], [1, 2], [1]]);
  });
});

it("wraps around to the next position", () => {
  expect([neighbour([3, 9], -1, 1), neighbour([3, 9], 3, 1), neighbour([3, 9], 9, 1)]).toEqual([3, 9, 3]);
  expect([neighbour([3, 9], 9, -1), neighbour([3, 9], 3, -1), neighbour([], 3, 1)]).toEqual([3, 9, null]);
});
