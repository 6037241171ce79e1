import { expect, it } from "vitest";
import { rangeIn, taskIn, withRange, withTask } from "./ranges";

it.each([
  ["", undefined],
  ["score:>=1", undefined],
  ['score:>=-1.5 "score:<=9" score:<=2', { least: -1.5, most: 2 }],
  ["score:>=1 score:<=x", undefined],
  ["score>=1 score<=2", { least: 1, most: 2 }],
])("reads the range of %j", (q, range) => expect(rangeIn(q, "score")).toEqual(range));

it.each([
  ["", "score:>=1 score:<=2"],
  ["env:maze score:<0.2 length:>3", "env:maze length:>3 score:>=1 score:<=2"],
  ['score>5 "two score:>1 words"', '"two score:>1 words" score:>=1 score:<=2'],
])("replaces the range of %j", (q, filter) => {
  expect(withRange(q, "score", { least: 1, most: 2 })).toBe(filter);
  expect(withRange(filter, "score", undefined)).toBe(filter.replace(/ ?score:>=1 score:<=2$/, ""));
});

it.each([
  ["env:maze score:<1", "maze"],
  ['env:"two words"', "two words"],
  ["env:a,b", undefined],
  ["env:a env:b", undefined],
  ["env~ma", undefined],
])("reads the environment of %j", (q, task) => expect(taskIn(q)).toBe(task));

it("replaces the environment, quoted where it must be", () => {
  expect(withTask("env:maze score:<1", "two words")).toBe('score:<1 env:"two words"');
  expect(withTask("env:maze score:<1", undefined)).toBe("score:<1");
});
