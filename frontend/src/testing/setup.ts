/** What jsdom lacks of a browser, and a clean page for every component test. */

import "@testing-library/jest-dom/vitest";
import { cleanup, configure } from "@testing-library/react";
import { afterEach, vi } from "vitest";

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
Element.prototype.scrollIntoView = () => {};
window.scrollTo = () => {};
document.execCommand = () => true;
Object.defineProperty(document, "fonts", { value: new EventTarget() });

afterEach(() => {
  cleanup();
  localStorage.clear();
  sessionStorage.clear();
});
