import { expect, it } from "vitest";
import { answersOf, collect } from "@/forms/answers";
import { type JsonSchema, sectionsOf } from "@/forms/fields";
import { answerOfRows, rowsOf } from "@/forms/rows";
import { jsonOf, readLessons } from "./lessonText";

const schema: JsonSchema = {
  type: "object",
  properties: {
    lessons: {
      type: "object",
      additionalProperties: {
        type: "object",
        properties: {
          spec: { type: "string" },
          kwargs: { type: "object", default: {} },
          sampling: { type: "object", properties: { max_tokens: { type: "integer", minimum: 1, default: 32 } } },
        },
      },
      "x-order": "order",
    },
    order: { type: "array", items: { type: "string" } },
  },
};
const sections = sectionsOf(schema);
const field = sections[0]?.fields[0] ?? expect.fail("no field");
const lesson = { spec: "task:sort", kwargs: { length: 2 }, sampling: { max_tokens: 8 } };
const config = { lessons: { b: lesson, a: lesson }, order: ["b", "a"] };
const answer = String(answersOf(sections, config).lessons);

it("shows lessons as JSON in their order, and reads them back", () => {
  expect(jsonOf(field, answer)).toBe(JSON.stringify(config.lessons, null, 2));
  expect(readLessons(field, jsonOf(field, answer))).toEqual({ answer });
});

it("takes the order of the lessons from the text, and defaults for missing fields", () => {
  const read = readLessons(field, '{"z": {"spec": "task:add"}, "b": {"spec": "task:sort"}}');
  const { config: taken } = collect(sections, { lessons: "answer" in read ? read.answer : "" });
  expect(taken).toEqual({
    lessons: {
      z: { spec: "task:add", kwargs: {}, sampling: { max_tokens: 32 } },
      b: { spec: "task:sort", kwargs: {}, sampling: { max_tokens: 32 } },
    },
    order: ["z", "b"],
  });
});

it("keeps the text of invalid fields, and every row of a repeated name", () => {
  const rows = (rowsOf(answer) ?? []).map((row) => ({ name: "b", answers: { ...row.answers, "sampling.max_tokens": "many" } }));
  expect(JSON.parse(jsonOf(field, answerOfRows(rows)))).toEqual({
    b: { ...lesson, sampling: { max_tokens: "many" } },
    "b-2": { ...lesson, sampling: { max_tokens: "many" } },
  });
  expect(jsonOf(field, '{"b": ')).toBe('{"b": ');
});

it.each([
  ['{"a": ', "Not valid JSON"],
  ["[]", "Enter an object of lessons by name"],
  ['{"a": 1}', "a: enter an object"],
  ['{"a": {"spec": "x", "nope": 1}}', "a: there is no field nope."],
  ['{"a": {"spec": "x", "sampling": {"top": 1}}}', "a: there is no field sampling.top."],
  ['{"a": {"spec": "x", "sampling": 1}}', "a: there is no field sampling."],
])("refuses %s", (text, problem) => {
  expect(readLessons(field, text)).toMatchObject({ problem: expect.stringContaining(problem) });
});
