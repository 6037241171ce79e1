import { expect, it } from "vitest";
import { queryOf, trajectorySearch } from "./search";

it("keeps valid filters of the URL", () => {
  const search = { q: "apples", runs: "project:sums", environment: "math", score_min: 0, score_max: 1, sort: "-score" };
  expect(trajectorySearch(search)).toEqual(search);
  expect(trajectorySearch({ kind: "episode", from: "2026-03-01", to: "2026-03-02" })).toEqual({
    kind: "episode",
    from: "2026-03-01",
    to: "2026-03-02",
  });
});

it("drops invalid values and defaults", () => {
  expect(trajectorySearch({ kind: "group", sort: "newest", q: "", runs: { a: 1 }, score_min: "low", from: "2026-13-01" })).toEqual({});
  expect(trajectorySearch({ score_min: 2, score_max: 1, from: "2026-03-02", to: "2026-03-01" })).toEqual({});
  expect(trajectorySearch({ q: 17, score_min: "0.5" })).toEqual({ q: "17", score_min: 0.5 });
});

it("drops words from searches for episodes, which have no text", () => {
  expect(trajectorySearch({ kind: "episode", q: "apples" })).toEqual({ kind: "episode" });
});

it("requests whole days in UTC", () => {
  expect(queryOf({ from: "2026-03-01", to: "2026-03-01", sort: "score" })).toEqual({
    since: "2026-03-01T00:00:00Z",
    until: "2026-03-01T23:59:59.999999Z",
    sort: "score",
  });
  expect(queryOf({ q: "apples" })).toEqual({ q: "apples" });
});
