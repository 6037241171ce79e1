import { expect, it } from "vitest";
import { type JsonSchema, sectionsOf } from "./fields";
import { matchesText, matching } from "./search";

const schema: JsonSchema = {
  type: "object",
  properties: {
    fleet: {
      type: "object",
      properties: {
        num_workers: { title: "Workers", description: "Rollout workers.", type: "integer" },
        batch_timeout_ms: { title: "Inference timeout", description: "Start with fewer observations.", type: "number" },
      },
    },
    seed: { title: "Seed", description: "Base of all random seeds.", type: "integer" },
  },
};
const fields = sectionsOf(schema).flatMap((section) => section.fields);
const found = (text: string) => matching(fields, text).map(({ path }) => path);

it.each([
  ["work", ["fleet.num_workers"]],
  ["WORKERS", ["fleet.num_workers"]],
  ["fleet.", ["fleet.num_workers", "fleet.batch_timeout_ms"]],
  ["batch timeout", ["fleet.batch_timeout_ms"]],
  ["random", ["seed"]],
  ["seed workers", []],
  ["  ", ["fleet.num_workers", "fleet.batch_timeout_ms", "seed"]],
])("%j finds %j", (text, paths) => expect(found(text)).toEqual(paths));

it("counts matches, and names those that do not apply", () => {
  expect(matchesText(0, 3, [])).toBe("No field of 3 matches.");
  expect(matchesText(1, 3, [])).toBe("1 field of 3 matches.");
  expect(matchesText(2, 3, fields.slice(0, 1))).toBe("2 fields of 3 match. 1 more does not apply: Workers.");
  expect(matchesText(0, 3, fields.slice(0, 2))).toBe("No field of 3 matches. 2 more do not apply: Workers, Inference timeout.");
});
