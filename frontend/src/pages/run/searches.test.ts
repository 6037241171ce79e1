import { expect, it } from "vitest";
import { logsSearch, processOf, textOf } from "./logs/search";
import { queueSearch } from "./queue/search";
import { isViewerAt } from "./tabs";

const nonEmpty = (search: object) => Object.fromEntries(Object.entries(search).filter(([, value]) => value !== undefined));

it("keeps batch, state and range of the queue in the URL", () => {
  const address = { batch: "0f3a", state: "leased", from: 5, to: 9 };
  expect(queueSearch(address)).toEqual(address);
  expect(nonEmpty(queueSearch({ batch: { a: 1 }, state: "eaten", from: 9, to: 5 }))).toEqual({});
});

it.each([
  ["manager", { worker: null, slot: null }],
  ["3", { worker: 3, slot: null }],
  ["3.0", { worker: 3, slot: 0 }],
])("names the process %s in the URL", (text, place) => {
  expect([processOf(text), textOf(place)]).toEqual([place, text]);
});

it("rejects other names of processes", () => {
  expect([undefined, "", "x", "-1", "1.2.3"].map(processOf)).toEqual([null, null, null, null, null]);
});

it("keeps log, time and level in the URL", () => {
  expect(logsSearch({ log: 2, at: 1_772_366_400, level: "error" })).toEqual({ log: "2", at: 1_772_366_400, level: "error" });
  expect(nonEmpty(logsSearch({ words: "/fail/" }))).toEqual({ words: "/fail/" });
  expect(nonEmpty(logsSearch({ log: { a: 1 }, at: "noon", level: "loud" }))).toEqual({});
});

it("distinguishes viewers from tabs", () => {
  expect(["groups/3", "fragments/4", "transcript"].map((tab) => isViewerAt(`/runs/pole/${tab}`))).toEqual([true, true, true]);
  expect(["/runs/pole", "/runs/pole/fleet", "/runs/groups/queue", "/runs/transcript"].some(isViewerAt)).toBe(false);
});
