import { expect, test } from "vitest";
import { type Asked, questionsOf } from "./together";

const asked = (name: string, more: Partial<Asked> = {}): Asked => ({ runs: "a", x: "step", points: 600, names: name.split(","), ...more });

test("what looks at the same part of the same runs is one question", () => {
  expect(questionsOf([asked("loss"), asked("reward"), asked("loss")])).toEqual([
    { runs: "a", x: "step", points: 600, names: ["loss", "reward"] },
  ]);
});

test("another run, axis, part or fineness is another question", () => {
  const others = [
    asked("loss"),
    asked("loss", { runs: "a,b" }),
    asked("loss", { x: "time" }),
    asked("loss", { points: 240 }),
    asked("loss", { from: 1, to: 2 }),
  ];
  expect(questionsOf(others)).toHaveLength(5);
});

test("no question asks for so many lines that each would be drawn coarser", () => {
  const runs = Array.from({ length: 6 }, (_, i) => `run-${i}`).join(",");
  const questions = questionsOf(Array.from({ length: 12 }, (_, i) => asked(`m${i}`, { runs })));
  expect(questions.map(({ names }) => names.length)).toEqual([5, 5, 2]);
});

test("names that are asked for in one are not taken apart", () => {
  const many = Array.from({ length: 12 }, (_, i) => asked(`m${i}`));
  expect(questionsOf([asked("p,q,r,s,t"), ...many])[0]?.names.slice(0, 5)).toEqual(["p", "q", "r", "s", "t"]);
});
