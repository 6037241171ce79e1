import { expect, it } from "vitest";
import type { StepWindow } from "@/api/groups";
import { workerIndex } from "./search";
import { placeOf, rangeText, stepOf, vectorText, versionsText } from "./steps";

const window: StepWindow = {
  start: 10,
  total: 12,
  action: [[1], [0]],
  action_size: 1,
  obs: [],
  obs_size: 192,
  obs_range: [[0, 12.5, 255]],
  reward: [0.5, 0],
  info: [
    { key: "cost", values: [1.5, 0] },
    { key: "episode.r", values: [null, 0] },
  ],
  value: [20, 21],
  logprob: [-0.1, -0.7],
  first: [true, false],
  terminated: [false, false],
  truncated: [true, false],
  is_padding: [false, true],
  policy_step: [3, 3],
  episode: [1, 1],
};

it("reads steps within the window only", () => {
  expect(Object.fromEntries(stepOf(window, 10) ?? [])).toMatchObject({
    Action: "1",
    Reward: "0.5",
    "info.cost": "1.5",
    "info.episode.r": "–",
    Episode: "begins, truncated",
    Observation: "192 values, 0 to 255, mean 12.5",
  });
  expect(stepOf(window, 11)).toContainEqual(["Episode", "padding"]);
  expect(stepOf(window, 12)).toBeUndefined();
  expect(stepOf(window, 9)).toBeUndefined();
  expect(stepOf(undefined, 9)).toBeUndefined();
});

it("shows how much of a vector was truncated", () => {
  expect(vectorText([0.25], 1)).toBe("0.25");
  expect(vectorText([1, -2], 2)).toBe("1, -2");
  expect(vectorText([1, 2], 100)).toBe("1, 2 … 98 more");
});

it("joins the parts of an episode in the order of its steps", () => {
  const parts = [
    { fragment: 7, first: 30, steps: 2, number: 0 },
    { fragment: 8, first: 0, steps: 3, number: 1 },
  ];
  const places = [0, 1, 2, 4, 5].map((index) => placeOf(parts, index));
  expect(places.map((place) => place && [place.part.fragment, place.step])).toEqual([[7, 30], [7, 31], [8, 0], [8, 2], undefined]);
});

it("describes large observations by their size and range", () => {
  expect(rangeText([0, 0.5, 1], 100)).toBe("100 values, 0 to 1, mean 0.5");
  expect(rangeText(undefined, 1)).toBe("1 value");
});

it("shows a single version once", () => {
  expect(versionsText({ version_min: 4, version_max: 4 })).toBe("4");
  expect(versionsText({ version_min: -1, version_max: 4 })).toBe("bootstrap – 4");
});

it("parses fleet worker names only", () => {
  expect(workerIndex("w12@5f2c")).toBe(12);
  expect(workerIndex("w3")).toBe(3);
  expect(workerIndex("w3b")).toBeNull();
  expect(workerIndex("evaluate")).toBeNull();
});
