import { expect, it } from "vitest";
import { splitVerb, takeVerb, verbCommands } from "./verbs";

const RUNS = [
  { name: "poles", allowed_verbs: ["pause" as const, "kill" as const] },
  { name: "ended", allowed_verbs: ["start" as const] },
];

it("splits a verb from the run's name", () => {
  expect(splitVerb("pause poles")).toEqual({ verb: "pause", rest: "poles" });
  expect(splitVerb("pau my poles")).toEqual({ verb: "pause", rest: "my poles" });
  expect(splitVerb("Kill")).toEqual({ verb: "kill", rest: "" });
  expect(splitVerb("pa poles")).toEqual({ verb: undefined, rest: "pa poles" });
  expect(splitVerb("poles")).toEqual({ verb: undefined, rest: "poles" });
});

it("offers a verb for the runs that allow it and opens the run with it once", () => {
  const opened: string[] = [];
  const offered = verbCommands("pause", RUNS, undefined, (run) => opened.push(run));
  expect(offered.map(({ title }) => title)).toEqual(["Pause poles…"]);
  offered[0]?.act();
  expect(opened).toEqual(["poles"]);
  expect(takeVerb("poles")).toBe("pause");
  expect(takeVerb("poles")).toBeNull();

  offered[0]?.act();
  expect(takeVerb("ended")).toBeNull();
  expect(takeVerb("poles")).toBeNull();
});

it("leaves the verbs of the open run to its page, and reset too", () => {
  expect(verbCommands("pause", RUNS, "poles", () => undefined)).toEqual([]);
  expect(verbCommands("reset", RUNS, undefined, () => undefined)).toEqual([]);
  expect(verbCommands("poles", RUNS, undefined, () => undefined)).toEqual([]);
});
