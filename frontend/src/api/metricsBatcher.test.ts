import { expect, test } from "vitest";
import { batchRequests, type LinesRequest } from "./metricsBatcher";

const asked = (name: string, more: Partial<LinesRequest> = {}): LinesRequest => ({
  runs: "a",
  x: "step",
  points: 600,
  names: name.split(","),
  ...more,
});

test("requests for the same runs and range are combined", () => {
  expect(batchRequests([asked("loss"), asked("reward"), asked("loss")])).toEqual([
    { runs: "a", x: "step", points: 600, names: ["loss", "reward"] },
  ]);
});

test("requests with different runs, axis, range or resolution stay separate", () => {
  const others = [
    asked("loss"),
    asked("loss", { runs: "a,b" }),
    asked("loss", { x: "time" }),
    asked("loss", { points: 240 }),
    asked("loss", { from: 1, to: 2 }),
  ];
  expect(batchRequests(others)).toHaveLength(5);
});

test("a request never exceeds the line limit", () => {
  const runs = Array.from({ length: 6 }, (_, i) => `run-${i}`).join(",");
  const questions = batchRequests(Array.from({ length: 12 }, (_, i) => asked(`m${i}`, { runs })));
  expect(questions.map(({ names }) => names.length)).toEqual([5, 5, 2]);
});

test("the names of one request stay together", () => {
  const many = Array.from({ length: 12 }, (_, i) => asked(`m${i}`));
  expect(batchRequests([asked("p,q,r,s,t"), ...many])[0]?.names.slice(0, 5)).toEqual(["p", "q", "r", "s", "t"]);
});
