import { expect, it } from "vitest";
import type { Sample } from "@/samples/samples";
import { newSamples } from "@/samples/samples";
import { sampleSearch } from "@/samples/search";

it("keeps valid parameters of the URL", () => {
  const search = { kind: "episode", q: "env:maze score:<1", sort: "-score" };
  expect(sampleSearch(search)).toEqual(search);
  expect(sampleSearch({ q: 17 })).toEqual({ q: "17" });
});

it("drops invalid values and defaults", () => {
  expect(sampleSearch({ kind: "run", q: { a: 1 }, sort: "luck" })).toEqual({});
  expect(sampleSearch({ sort: "-arrived", q: "" })).toEqual({});
  expect(sampleSearch({ q: "x".repeat(2000) }).q).toHaveLength(1000);
});

it("keeps metadata and overrides as columns and sort keys", () => {
  const search = { sort: "-meta.difficulty", columns: "meta.difficulty,override.level" };
  expect(sampleSearch(search)).toEqual(search);
  expect(sampleSearch({ sort: "meta.", columns: "meta.a,name,meta.a,override.b c" })).toEqual({ columns: "meta.a" });
  expect(sampleSearch({ columns: { a: 1 } })).toEqual({});
});

it("counts the samples before the first loaded one", () => {
  const of = (...ids: string[]) => ids.map((id) => ({ id, run: "a" }) as Sample);
  expect(newSamples(of("9", "8", "7"), of("7", "6"))).toBe(2);
  expect(newSamples(of("9", "8"), of("9", "8"))).toBe(0);
  expect(newSamples(of("9", "8"), of("3"))).toBe(2);
});
