import { expect, it } from "vitest";
import { type Annotations, marksOf } from "@/pages/run/marks";

const BEGAN = "2026-03-01T12:00:00Z";
const FOUND: Annotations = {
  results: [
    {
      id: 1,
      text: "half the rate",
      at: "2026-03-01T12:01:00Z",
      step: 10,
      amount: null,
      created_at: BEGAN,
      created_by: "ada",
      is_own: true,
    },
  ],
  next: null,
  events: [{ id: 7, kind: "status", message: "paused", at: "2026-03-01T12:02:00Z", step: 20, amount: 4000 }],
};

it("places marks on every axis and omits others", () => {
  expect(marksOf(FOUND, "step", BEGAN).map(({ x, role }) => [x, role])).toEqual([
    [20, "event"],
    [10, "note"],
  ]);
  expect(marksOf(FOUND, "elapsed", BEGAN).map(({ x }) => x)).toEqual([120, 60]);
  expect(marksOf(FOUND, "amount", BEGAN).map(({ text }) => text)).toEqual(["paused"]);
  expect(marksOf(FOUND, "time", BEGAN)[1]).toEqual({
    x: Date.parse("2026-03-01T12:01:00Z") / 1000,
    text: "half the rate (ada)",
    role: "note",
  });
  expect(marksOf(undefined, "step", BEGAN)).toEqual([]);
});

it("distinguishes published versions from events", () => {
  const version = { id: 7, kind: "weights_version", message: "version 3 of epoch 0", at: BEGAN, step: 3, amount: null };
  const marks = marksOf({ ...FOUND, events: [...FOUND.events, version] }, "step", BEGAN);
  expect(marks.map(({ x, role }) => [x, role])).toEqual([
    [20, "event"],
    [3, "version"],
    [10, "note"],
  ]);
});
