import { expect, it } from "vitest";
import { boundProblem, dayProblem, queryOf, trajectorySearch } from "./search";

it("keeps valid filters of the URL", () => {
  const search = { q: "apples", runs: "project:sums", environment: "math", score_min: 0, score_max: 1, sort: "score" };
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
  expect(queryOf({ from: "2026-03-01", to: "2026-03-01", sort: "-score" })).toEqual({
    since: "2026-03-01T00:00:00Z",
    until: "2026-03-01T23:59:59.999999Z",
    sort: "-score",
  });
  expect(queryOf({ q: "apples" })).toEqual({ q: "apples" });
});

it("names the problem of a typed bound", () => {
  expect(boundProblem("", "least", 2)).toBeUndefined();
  expect(boundProblem("-1e2", "least", 2)).toBeUndefined();
  expect(boundProblem("two", "least", undefined)).toBe("must be a number");
  expect(boundProblem("3", "least", 2)).toBe("is above the greatest, 2");
  expect(boundProblem("1", "greatest", 2)).toBe("is below the least, 2");
});

it("names the problem of a typed day", () => {
  expect(dayProblem("", "from", "2026-01-02")).toBeUndefined();
  expect(dayProblem("2026-01-02", "from", "2026-01-02")).toBeUndefined();
  expect(dayProblem("2026-13-01", "to", undefined)).toBe("must be a day, such as 2026-01-31");
  expect(dayProblem("2026-01-03", "from", "2026-01-02")).toBe("is after the last day, 2026-01-02");
  expect(dayProblem("2026-01-01", "to", "2026-01-02")).toBe("is before the first day, 2026-01-02");
});
