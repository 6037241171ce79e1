/** What jsdom lacks of a browser, and a clean page for every component test. */

import "@testing-library/jest-dom/vitest";
import { cleanup, configure } from "@testing-library/react";
import { afterEach, expect, vi } from "vitest";

// A busy machine may need long for short operations.
configure({ asyncUtilTimeout: 15_000 });

class Observer {
  observe() {}
  unobserve() {}
  disconnect() {}
  takeRecords() {
    return [];
  }
}
vi.stubGlobal("ResizeObserver", Observer);
vi.stubGlobal("IntersectionObserver", Observer);
// A wide screen in the dark, without animations.
vi.stubGlobal("matchMedia", (query: string) => ({
  matches: /reduce|prefers-color-scheme: dark/.test(query),
  media: query,
  addEventListener: () => {},
  removeEventListener: () => {},
}));
// Node's own class refuses addresses without a host.
vi.stubGlobal(
  "Request",
  class extends Request {
    constructor(input: RequestInfo | URL, init?: RequestInit) {
      super(typeof input === "string" ? new URL(input, location.href) : input, init);
    }
  },
);
// CodeMirror measures its text.
Range.prototype.getClientRects = () => [] as unknown as DOMRectList;
Range.prototype.getBoundingClientRect = () => new DOMRect();
Element.prototype.scrollIntoView = () => {};
window.scrollTo = () => {};
document.execCommand = () => true;
Object.defineProperty(document, "fonts", { value: new EventTarget() });

// Messages about jsdom, which has no layout.
const ACCEPTED = [/use-focus-trap\] Failed to find focusable element/];
const printed: string[] = [];
for (const level of ["error", "warn"] as const) {
  vi.spyOn(console, level).mockImplementation((...parts) => {
    const text = parts.map(String).join(" ");
    if (!ACCEPTED.some((message) => message.test(text))) printed.push(text);
  });
}

afterEach(async () => {
  cleanup();
  // A module that still loads when the environment of a file closes fails the file.
  await vi.dynamicImportSettled();
  localStorage.clear();
  sessionStorage.clear();
  expect(printed.splice(0), "the console stays empty").toEqual([]);
});
