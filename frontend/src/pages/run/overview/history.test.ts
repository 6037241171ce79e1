import { expect, it } from "vitest";
import { type History, remember } from "./history";

it("keeps points in order of time and drops doubled ones", () => {
  let history: History = { x: [], values: [[], []] };
  history = remember(history, "1970-01-01T00:00:01Z", [5, 9]);
  history = remember(history, "1970-01-01T00:00:01Z", [6, 9]);
  history = remember(history, null, [7, 9]);
  history = remember(history, "1970-01-01T00:00:02Z", [8, null]);
  expect(history).toEqual({ x: [1, 2], values: [[5, 8], [9, null]] });
});
