/** The viewport of a component test: jsdom has none. */

import { vi } from "vitest";

/** Charts are mounted only on screen: report every element as visible. */
export function showAll(): void {
  class Observer {
    constructor(private readonly tell: (entries: { isIntersecting: boolean }[]) => void) {}
    observe = () => this.tell([{ isIntersecting: true }]);
    disconnect = () => {};
    unobserve = () => {};
  }
  vi.stubGlobal("IntersectionObserver", Observer);
}
