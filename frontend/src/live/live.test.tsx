import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderHook } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { useChangeFeed } from "@/live/live";

/** A page that reads the query `a` again when the news change, at most every 2 s. */
function pageOf() {
  const queries = new QueryClient();
  const reads = vi.spyOn(queries, "invalidateQueries");
  const page = renderHook(({ news }: { news: unknown }) => useChangeFeed(news, 2_000, ["a"]), {
    initialProps: { news: undefined as unknown },
    wrapper: ({ children }) => <QueryClientProvider client={queries}>{children}</QueryClientProvider>,
  });
  return { ...page, hear: (news: unknown) => page.rerender({ news }), count: () => reads.mock.calls.length };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("does not refetch for initial or unchanged values", () => {
  const page = pageOf();
  for (const news of [undefined, 1, 1]) page.hear(news);
  vi.advanceTimersByTime(60_000);
  expect(page.count()).toBe(0);
  // The fallback is long while the socket is expected to bring changes.
  expect(page.result.current).toBe(30_000);
});

it("refetches immediately on the first change", () => {
  const page = pageOf();
  for (const news of [1, 2]) page.hear(news);
  expect(page.count()).toBe(1);
});

it("limits the rate on a busy topic without missing the last change", () => {
  const page = pageOf();
  for (let value = 0; value < 41; value += 1) {
    page.hear(value);
    vi.advanceTimersByTime(250);
  }
  // Ten seconds of news four times a second: one read at once, then one each two seconds.
  expect(page.count()).toBeGreaterThanOrEqual(5);
  expect(page.count()).toBeLessThanOrEqual(6);
  const before = page.count();
  page.hear("last");
  vi.advanceTimersByTime(2_000);
  expect(page.count()).toBe(before + 1);
});

it("does not refetch after unmount", () => {
  const page = pageOf();
  for (const news of [1, 2, 3]) page.hear(news);
  page.unmount();
  vi.advanceTimersByTime(60_000);
  expect(page.count()).toBe(1);
});
