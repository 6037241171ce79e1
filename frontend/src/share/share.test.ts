import { defaultParseSearch, defaultStringifySearch } from "@tanstack/react-router";
import { expect, it } from "vitest";
import { viewerSearch } from "@/pages/viewer/search";
import { viewSearch } from "@/wall/view";
import { chartOf, chartTarget, fixed, known, shareSearch, withLook } from "./share";

/** The parameters after the router has written them into an address and read them from it. */
const overTheWire = (search: Record<string, unknown>): Record<string, unknown> => defaultParseSearch(defaultStringifySearch(search));

it("keeps the place and the looks of charts in the address", () => {
  const place = { focus: chartTarget("loss"), looks: { loss: "log,large,from:0,x:a%20b,hide:c%26d%3De", "= a / b": "clip" } };
  expect(shareSearch(overTheWire(place))).toMatchObject(place);
  expect(chartOf(place.focus)).toBe("loss");
  expect(chartOf("worker:3")).toBeNull();
});

it("drops invalid places and looks", () => {
  const none = { focus: undefined, looks: undefined };
  expect(shareSearch({ focus: 7, looks: { loss: "linear", "": "log" } })).toEqual(none);
  expect(shareSearch({ focus: "x".repeat(201), looks: ["log"] })).toEqual(none);
});

it("changes the look of one chart", () => {
  expect(withLook({ a: "log" }, "b", "clip")).toEqual({ a: "log", b: "clip" });
  expect(withLook({ a: "log" }, "a", undefined)).toBeUndefined();
});

it("gives the view of a link back as it was", () => {
  const view = { q: "loss", x: "elapsed", from: -2, to: 90, smooth: 0.9, runs: "beta", charts: ["kl", "/^a/"] };
  const address = known({ ...view, focus: "chart:loss", looks: { loss: "log" } }, [shareSearch, viewSearch]);
  expect(address).toEqual({ ...view, focus: "chart:loss", looks: { loss: "log" } });
  expect(known(overTheWire(address), [shareSearch, viewSearch])).toEqual(address);
});

it("gives the sequence and the token of a link back as they were", () => {
  const view = { view: "tokens", seq: 2, token: 40, color: "logprob", q: "env:add", sort: "score" };
  const address = known(view, [shareSearch, viewerSearch]);
  expect(known(overTheWire(address), [shareSearch, viewerSearch])).toEqual(view);
});

it("drops parameters that no route of the page knows", () => {
  const search = { q: "loss", access_token: "rd_0123abcd_secret", token: "rd_0123abcd_secret", next: "/login" };
  expect(known(search, [shareSearch, viewSearch])).toEqual({ q: "loss" });
  expect(known(search, [shareSearch, viewerSearch])).toEqual({ q: "loss" });
});

it("replaces the last minutes by a fixed range", () => {
  expect(fixed({ last: 900, pick: "a" }, 10_000.2)).toEqual({ from: 9_101, to: 10_001, pick: "a" });
  const zoomed = { from: 1, to: 2, last: 900 };
  expect(fixed(zoomed, 10_000)).toBe(zoomed);
  expect(fixed({ q: "a" }, 10_000)).toEqual({ q: "a" });
  expect(viewSearch(fixed({ last: 900 }, 10_000))).toMatchObject({ from: 9_100, to: 10_000, last: undefined });
});
