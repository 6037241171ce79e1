import { expect, it } from "vitest";
import { episodesSearch } from "./episodes/search";
import { logsSearch } from "./logs/search";
import { queueSearch } from "./queue/search";

const told = (search: object) => Object.fromEntries(Object.entries(search).filter(([, value]) => value !== undefined));

it("keeps batch, state and range of the queue in the URL", () => {
  const address = { batch: "0f3a", state: "leased", from: 5, to: 9 };
  expect(queueSearch(address)).toEqual(address);
  expect(told(queueSearch({ batch: { a: 1 }, state: "eaten", from: 9, to: 5 }))).toEqual({});
});

it("keeps axis and period of episodes in the URL", () => {
  expect(episodesSearch({ span: 3600, x: "env_steps" })).toEqual({ span: 3600, x: "env_steps" });
  expect(told(episodesSearch({ span: "300", x: "time" }))).toEqual({});
  expect(told(episodesSearch({ span: "-1", x: ["env_steps"] }))).toEqual({});
});

it("keeps log, time and level in the URL", () => {
  expect(logsSearch({ log: 2, at: 1_772_366_400, level: "error" })).toEqual({ log: "2", at: 1_772_366_400, level: "error" });
  expect(told(logsSearch({ log: { a: 1 }, at: "noon", level: "loud" }))).toEqual({});
});
