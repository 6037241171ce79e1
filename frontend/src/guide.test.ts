import { expect, it } from "vitest";
import { addressOfGuide, GUIDE_PAGES } from "@/guide";

const DOCS = "../../docs/";
const pages = Object.keys(import.meta.glob("../../docs/**/*.md")).map((path) => path.slice(DOCS.length, -".md".length));

it("links to pages of the documentation that exist", () => {
  expect(pages.length).toBeGreaterThan(50);
  expect(GUIDE_PAGES.filter((page) => !pages.includes(page))).toEqual([]);
});

it("builds addresses of the site", () => {
  expect(addressOfGuide("README")).toBe("/guide/");
  expect(addressOfGuide("howto/alerts")).toBe("/guide/howto/alerts.html");
});
