import { expect, it } from "vitest";
import { entryOf } from "@/pages/guide/glossary";

const sources = import.meta.glob<string>("/src/**/*.{ts,tsx}", { query: "?raw", import: "default", eager: true });

it("explains only words of the glossary", () => {
  const used = Object.values(sources).flatMap((text) => [...text.matchAll(/<Term of="([^"]+)"|\bterm(?:=|: )"([^"]+)"/g)]);
  const terms = new Set(used.map(([, direct, named]) => direct ?? named ?? ""));
  expect(terms.size).toBeGreaterThan(8);
  expect([...terms].filter((term) => !entryOf(term))).toEqual([]);
});
