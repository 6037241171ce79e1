import { expect, it } from "vitest";
import { CONTENTS, sectionsOf } from "./contents";
import { loaderOf, urlOf } from "./docs";
import { anchorOf, entriesOf, entryOf, GLOSSARY } from "./glossary";
import { addressOf, targetOf } from "./places";

it("reads the terms of the glossary as plain text", () => {
  const markdown = "| term | meaning | also called |\n|---|---|---|\n| a, b | `x` of a [page](to/it.md#there) | – |\n| c | d | e |";
  expect(entriesOf(markdown)).toEqual([
    { words: ["a", "b"], meaning: "x of a page" },
    { words: ["c"], meaning: "d" },
  ]);
  expect(GLOSSARY.length).toBeGreaterThan(30);
  expect(GLOSSARY.every(({ meaning }) => meaning !== "" && !/[`|[\]]\(?/.test(meaning))).toBe(true);
  expect(entryOf("fragment")?.meaning).toContain("consecutive env steps");
  expect(entryOf("group")).toBe(entryOf("trajectory group"));
  expect(entryOf("no such term")).toBeUndefined();
  expect(anchorOf("policy version")).toBe("term-policy-version");
});

it("resolves links from the page that contains them", () => {
  expect(targetOf("", "howto/watching.md")).toEqual({ kind: "page", page: "howto/watching", hash: "" });
  expect(targetOf("howto/watching", "../glossary.md#states-of-a-run")).toEqual({ kind: "page", page: "glossary", hash: "states-of-a-run" });
  expect(targetOf("howto/watching", "#tabs")).toEqual({ kind: "page", page: "howto/watching", hash: "tabs" });
  expect(targetOf("howto/watching", "../README.md")).toEqual({ kind: "page", page: "", hash: "" });
  expect(targetOf("adr/README", "0001-a.md")).toEqual({ kind: "page", page: "adr/0001-a", hash: "" });
  expect(targetOf("quickstart", "images/home.png")).toEqual({ kind: "file", path: "images/home.png" });
  expect(targetOf("howto/grpo", "../../examples/grpo.py")).toEqual({ kind: "source", path: "examples/grpo.py" });
  expect(targetOf("howto/grpo", "https://example.org/x#y")).toEqual({ kind: "outside", url: "https://example.org/x#y" });
  expect(addressOf("")).toBe("/guide");
  expect(addressOf("howto/watching", "tabs")).toBe("/guide/howto/watching#tabs");
});

it("lists the pages of the index, each of which exists", () => {
  const index =
    "# Docs\n\n## Parts\n\n**First**\n\n| page | covers |\n|---|---|\n| [A](howto/a.md) | the `a` |\n| [API](reference/x.json) | x |\n";
  expect(sectionsOf(index)).toEqual([{ heading: "First", pages: [{ title: "A", page: "howto/a", covers: "the a" }] }]);
  const pages = CONTENTS.flatMap((section) => section.pages);
  expect(pages.length).toBeGreaterThan(50);
  expect(pages.filter(({ page }) => !loaderOf(page))).toEqual([]);
  expect(new Set(pages.map(({ page }) => page)).size).toBe(pages.length);
  expect(urlOf("images/home.png")).toBeTruthy();
  expect(urlOf("images/none.png")).toBeUndefined();
});
