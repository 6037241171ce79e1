import { beforeEach, expect, it } from "vitest";
import { matchesIn, show } from "@/pages/viewer/find";

beforeEach(() => {
  document.body.innerHTML = `
    <div data-part>The <b>qui</b>ck fox, a QUICK one</div>
    <details data-part><summary>Reasoning</summary><pre>quick</pre></details>
    <p>quick, outside</p>`;
});

const found = (needle: string, most?: number) => matchesIn(document.body, "[data-part]", needle, most).map(String);

it("finds text across markup, without regard to case, in parts alone", () => {
  expect(found("quick")).toEqual(["quick", "QUICK", "quick"]);
  expect(found("the quick f")).toEqual(["The quick f"]);
  expect(found("")).toEqual([]);
  expect(found("slow")).toEqual([]);
  expect(found("quick", 2)).toHaveLength(2);
});

it("opens the fold around the current match", () => {
  Element.prototype.scrollIntoView ??= () => {};
  const fold = document.querySelector("details");
  show(matchesIn(document.body, "[data-part]", "quick"), 0);
  expect(fold?.open).toBe(false);
  show(matchesIn(document.body, "[data-part]", "quick"), 2);
  expect(fold?.open).toBe(true);
});
