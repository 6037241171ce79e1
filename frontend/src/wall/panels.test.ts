import { expect, it } from "vitest";
import {
  branchesOf,
  LINES_AT_MOST,
  matched,
  namesOf,
  panelOf,
  panelOfAll,
  panelOfRule,
  problemOf,
  requestsOf,
  sourceOf,
  withWords,
} from "./panels";
import { presetsOf } from "./presets";

const alone = new Set<string>();

it("reads names, regular expressions and expressions of metrics", () => {
  expect(sourceOf("train/loss")).toEqual({ kind: "metric", name: "train/loss" });
  expect(sourceOf("/^layer/.*norm$/")).toEqual({ kind: "regex", pattern: "^layer/.*norm$" });
  expect(namesOf(sourceOf("= a / b"))).toEqual(["a", "b"]);
  expect(namesOf(sourceOf("= a /"))).toEqual([]);
});

it("draws the metrics of a rule, and those with a beginning", () => {
  const names = ["env/a.b/solved", "env/a.b/turns", "env/axb/solved", "rolldeck/env/a.b/solved"];
  const found = (text: string) => {
    const source = sourceOf(text);
    return source.kind === "regex" ? matched(names, source.pattern).names : namesOf(source);
  };
  expect(found(panelOfRule("env/*/solved"))).toEqual(["env/a.b/solved", "env/axb/solved"]);
  expect(found(panelOfRule("env/a.b/solved"))).toEqual(["env/a.b/solved"]);
  expect(found(panelOfAll("env/a.b/"))).toEqual(names.slice(0, 2));
});

it("has the error of an invalid panel", () => {
  expect(problemOf(sourceOf("= a /"))).toMatch("Character");
  expect(problemOf(sourceOf("/(/"))).toBe("Invalid expression.");
  expect([problemOf(sourceOf("/a|b/")), problemOf(sourceOf("loss"))]).toEqual([null, null]);
});

it("finds names by a regular expression, up to the limit", () => {
  const names = ["kl", "layer/1/norm", "layer/2/norm"];
  expect(matched(names, "^layer/\\d+/norm$")).toEqual({ names: names.slice(1), total: 2, problem: null });
  const many = Array.from({ length: 57 }, (_, i) => `m${i}`);
  expect(matched(many, "m")).toMatchObject({ total: 57 });
  expect(matched(many, "m").names).toHaveLength(LINES_AT_MOST);
});

it("requests neighbouring metrics together, fewer of many runs, and others alone", () => {
  const names = Array.from({ length: 14 }, (_, i) => `m${i}`);
  const panels = ["= m0 / m1", ...names].map(panelOf);
  const one = requestsOf(panels, { runs: 1, alone });
  expect(one.get("m0")).toBe(one.get("m11"));
  expect(one.get("m12")).toEqual(["m12", "m13"]);
  expect(one.get("= m0 / m1")).toEqual(["m0", "m1"]);
  expect(requestsOf(panels, { runs: 20, alone }).get("m3")).toEqual(["m3"]);
  expect(requestsOf(panels, { runs: 1, alone: new Set(["m1"]) }).get("m1")).toEqual(["m1"]);
});

it("requests the presets of one run together, in at most 50 names, the limit of the API", () => {
  const panels = presetsOf("fleet");
  const requests = new Set(requestsOf(panels, { runs: 1, alone }).values());
  expect(requests.size).toBe(1);
  expect([...requests][0]?.length).toBeLessThanOrEqual(50);
  expect(new Set(requestsOf(panels, { runs: 5, alone }).values()).size).toBe(8);
});

it("finds names that contain all words, and the branches that several names have", () => {
  const names = ["layer/1/norm", "layer/1/weight", "layer/2/norm", "loss", "train.kl"];
  expect(withWords(names, "NORM 1")).toEqual(["layer/1/norm"]);
  expect(withWords(names, " ")).toBe(names);
  expect([...branchesOf(names)]).toEqual([
    ["layer/", 3],
    ["layer/1/", 2],
  ]);
});
