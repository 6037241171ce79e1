import { expect, it } from "vitest";
import { cut, pieceOf, plain } from "@/pages/viewer/hostile";

it.each([
  ["\u202eevil", "⟨U+202E⟩evil"],
  ["a\u200bb\ufeff", "a⟨ZWSP⟩b⟨BOM⟩"],
  ["\x1b[31mred", "⟨ESC⟩[31mred"],
  ["soft\u00adhyphen", "soft⟨U+00AD⟩hyphen"],
  ["tag\u{e0041}", "tag⟨U+E0041⟩"],
  ["half \ud800 pair", "half ⟨U+D800⟩ pair"],
  ["heart\ufe0f", "heart⟨U+FE0F⟩"],
])("names invisible characters in %j", (text, shown) => expect(plain(text)).toBe(shown));

it("leaves visible text unchanged", () => {
  const text = "é 日本 😀 <script>\tline\nnext";
  expect(plain(text)).toBe(text);
});

it("shows and keeps breaks and tabs of a token", () => expect(pieceOf("a\n\t")).toBe("a⏎\n⇥\t"));

it("never splits a surrogate pair", () => {
  expect(cut("a😀b", 2)).toBe("a");
  expect(cut("a😀b", 3)).toBe("a😀");
  expect(cut("ab", 9)).toBe("ab");
});
