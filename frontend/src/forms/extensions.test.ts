import { expect, it } from "vitest";
import { answersOf, collect } from "./answers";
import { answerOfRows, readExtensions, rowsOf } from "./extensions";
import { type JsonSchema, sectionsOf } from "./fields";

const schema: JsonSchema = {
  type: "object",
  properties: {
    environment: {
      type: "object",
      properties: {
        wrappers: { title: "Wrappers", type: "array", default: [], maxItems: 16, "x-choices": ["module:a:B", "package:c"] },
      },
    },
  },
};

it("makes a field with the registered names as choices", () => {
  const field = sectionsOf(schema)[0]?.fields[0];
  expect([field?.kind, field?.choices]).toEqual(["extensions", ["module:a:B", "package:c"]]);
});

it("returns the configured list", () => {
  const config = {
    environment: {
      wrappers: [
        { kind: "package:c", kwargs: { frames: 4 } },
        { kind: "module:a:B", kwargs: {} },
      ],
    },
  };
  const sections = sectionsOf(schema);
  expect(collect(sections, answersOf(sections, config))).toEqual({ config, problems: {} });
  expect(answersOf(sections, {})).toEqual({ "environment.wrappers": "[]" });
});

it("keeps arguments as typed until they are read", () => {
  const rows = [{ kind: "package:c", kwargs: '{"frames": ' }];
  expect(rowsOf(answerOfRows(rows))).toEqual(rows);
  expect(readExtensions(answerOfRows([{ kind: "package:c", kwargs: ' {"frames": 4}' }]))).toEqual({
    value: [{ kind: "package:c", kwargs: { frames: 4 } }],
  });
});

it.each([
  [
    [
      { kind: "package:c", kwargs: "" },
      { kind: "", kwargs: "" },
    ],
    "Row 2: choose a name.",
  ],
  [[{ kind: "package:c", kwargs: '{"a' }], 'Row 1: enter arguments as a JSON object, such as {"key": 1}.'],
  [[{ kind: "package:c", kwargs: "[1]" }], 'Row 1: enter arguments as a JSON object, such as {"key": 1}.'],
])("names the first invalid row", (rows, problem) => {
  expect(readExtensions(answerOfRows(rows))).toEqual({ problem });
});

it("refuses text that is no list of objects", () => {
  expect(rowsOf("{}")).toBeNull();
  expect(rowsOf("[1]")).toBeNull();
  expect(readExtensions("[")).toHaveProperty("problem");
});
