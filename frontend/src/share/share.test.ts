import { defaultParseSearch, defaultStringifySearch } from "@tanstack/react-router";
import { expect, it } from "vitest";
import { metricsSearch } from "@/pages/run/metrics/search";
import { overviewSearch } from "@/pages/run/overview/search";
import { viewerSearch } from "@/pages/viewer/search";
import { chartOf, chartTarget, fixed, known, shareSearch } from "./share";

/** The parameters after the router has written them into an address and read them from it. */
const overTheWire = (search: Record<string, unknown>): Record<string, unknown> => defaultParseSearch(defaultStringifySearch(search));

it("keeps the place and the state of a chart in the address", () => {
  const place = { focus: chartTarget("loss"), hide: ["a b", "17", "c&d=e"], scale: "log,large,from:0" };
  expect(shareSearch(overTheWire(place))).toEqual(place);
  expect(chartOf(place.focus)).toBe("loss");
  expect(chartOf("worker:3")).toBeNull();
});

it("drops invalid places, and chart state without a place", () => {
  const none = { focus: undefined, hide: undefined, scale: undefined };
  expect(shareSearch({ focus: 7, hide: ["a"], scale: "log" })).toEqual(none);
  expect(shareSearch({ focus: "x".repeat(201) })).toEqual(none);
  expect(shareSearch({ focus: "chart:a", hide: "a", scale: "linear" })).toEqual({ ...none, focus: "chart:a" });
  expect(shareSearch({ focus: "chart:a", hide: ["a", 1, "a"] }).hide).toEqual(["a"]);
});

it("gives the metrics of a link back as they were", () => {
  const view = { q: "loss", x: "elapsed", from: -2, to: 90, smooth: 0.9, with: "beta", pin: "kl", log: "loss", panels: ["^a"] };
  const address = known({ ...view, focus: "chart:loss" }, [shareSearch, metricsSearch]);
  expect(address).toEqual({ ...view, focus: "chart:loss" });
  expect(known(overTheWire(address), [shareSearch, metricsSearch])).toEqual(address);
});

it("gives the sequence and the token of a link back as they were", () => {
  const view = { view: "tokens", seq: 2, token: 40, color: "logprob", q: "env:add", sort: "score" };
  const address = known(view, [shareSearch, viewerSearch]);
  expect(known(overTheWire(address), [shareSearch, viewerSearch])).toEqual(view);
});

it("drops parameters that no route of the page knows", () => {
  const search = { q: "loss", access_token: "rd_0123abcd_secret", token: "rd_0123abcd_secret", next: "/login" };
  expect(known(search, [shareSearch, metricsSearch])).toEqual({ q: "loss" });
  expect(known(search, [shareSearch, viewerSearch])).toEqual({ q: "loss" });
});

it("replaces the last minutes by a fixed range", () => {
  expect(fixed({ last: 900, pick: "a" }, 10_000.2)).toEqual({ from: 9_101, to: 10_001, pick: "a" });
  const zoomed = { from: 1, to: 2, last: 900 };
  expect(fixed(zoomed, 10_000)).toBe(zoomed);
  expect(fixed({ q: "a" }, 10_000)).toEqual({ q: "a" });
  expect(overviewSearch(fixed({ last: 900 }, 10_000))).toMatchObject({ from: 9_100, to: 10_000, last: undefined });
});
