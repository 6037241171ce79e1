import { describe, expect, it } from "vitest";
import { answersOf, collect } from "@/forms/answers";
import { type JsonSchema, sectionsOf } from "@/forms/fields";
import { answerOfRows } from "@/forms/rows";
import { changedPaths, fieldOfChange, filled, formChanges, reasonHidden, sectionsWithErrors, tiersOf } from "./tiers";

const schema: JsonSchema = {
  $defs: {
    EvaluationConfig: {
      type: "object",
      properties: {
        every: { title: "Evaluate every", type: "integer", default: 0 },
        episodes: { title: "Episodes", type: "integer", default: 20, "x-when": [{ field: "evaluation.every", not: [0] }] },
      },
    },
  },
  type: "object",
  properties: {
    policy: {
      type: "object",
      properties: {
        kind: { title: "Policy", enum: ["mlp", "cnn"], default: "mlp", "x-essential": true },
        channels: {
          title: "Channels",
          type: "array",
          items: { type: "integer" },
          default: [16],
          "x-when": [{ field: "policy.kind", is: ["cnn"] }],
        },
        precision: { title: "Precision", enum: ["float32", "float16"], default: "float32" },
        callbacks: { title: "Callbacks", type: "array", default: [], "x-choices": ["a:b:C"] },
      },
    },
    evaluation: { $ref: "#/$defs/EvaluationConfig", "x-when": [{ field: "language", is: [null] }] },
    seed: { title: "Seed", type: "integer", default: 0, "x-essential": true },
  },
};
const sections = sectionsOf(schema);
const standard = answersOf(sections, {});
const base = collect(sections, standard).config;

function formOf(changed: Record<string, string>, { errors = {}, query = "", extra = {} } = {}) {
  const { config, problems } = collect(sections, { ...standard, ...changed });
  const whole = { ...filled(sections, config, problems, base), ...extra };
  const changes = formChanges(sections, base, whole, problems);
  const tiers = tiersOf(sections, { whole, changed: changedPaths(sections, changes), errors, query });
  return { changes, tiers, whole };
}
const paths = (fields: { path: string }[]) => fields.map(({ path }) => path);

describe("the tiers", () => {
  it("are the essential fields, and sections of the others", () => {
    const { tiers } = formOf({});
    expect(paths(tiers.essentials)).toEqual(["policy.kind", "seed"]);
    expect(tiers.sections.map(({ name, fields }) => [name, paths(fields)])).toEqual([
      ["policy", ["policy.precision", "policy.callbacks"]],
      ["evaluation", ["evaluation.every"]],
    ]);
  });
  it("show only fields that apply", () => {
    expect(paths(formOf({}).tiers.hidden)).toEqual(["policy.channels", "evaluation.episodes"]);
    expect(paths(formOf({ "policy.kind": "cnn", "evaluation.every": "5" }).tiers.hidden)).toEqual([]);
    expect(paths(formOf({}, { extra: { language: {} } }).tiers.hidden)).toEqual([
      "policy.channels",
      "evaluation.every",
      "evaluation.episodes",
    ]);
  });
  it("show a field with an error although it does not apply", () => {
    const errors = { "policy.channels": "Too many." };
    const { tiers } = formOf({}, { errors });
    expect(paths(tiers.hidden)).toEqual(["evaluation.episodes"]);
    expect(tiers.sections[0]).toMatchObject({ name: "policy", wrong: 1 });
    expect(sectionsWithErrors(sections, { ...errors, seed: "Wrong." })).toEqual(["policy"]);
  });
  it("count changed fields by section", () => {
    const { tiers } = formOf({ "policy.precision": "float16", "evaluation.every": "5", "evaluation.episodes": "3", seed: "1" });
    expect(tiers.sections.map(({ name, changed }) => [name, changed])).toEqual([
      ["policy", 1],
      ["evaluation", 2],
    ]);
  });
  it("contain the fields that a search finds", () => {
    const { tiers } = formOf({}, { query: "seed" });
    expect([paths(tiers.essentials), tiers.sections, tiers.shown.length]).toEqual([["seed"], [], 5]);
  });
});

describe("the changes", () => {
  it("contain a changed field that does not apply, with the reason", () => {
    const { changes, tiers, whole } = formOf({ "policy.channels": "8" });
    expect(changes).toEqual([{ path: "policy.channels", kind: "changed", before: [16], after: [8] }]);
    expect(whole).toMatchObject({ policy: { channels: [8] } });
    const channels = tiers.hidden[0] ?? expect.fail("shown");
    expect(reasonHidden(sections, channels, whole)).toBe("Policy is cnn");
  });
  it("name a row without a name as invalid, never as removed", () => {
    const callbacks = JSON.stringify([{ kind: "", kwargs: "" }]);
    const { changes, tiers } = formOf({ "policy.callbacks": callbacks, "policy.precision": "float16" });
    expect(changes.map(({ path, kind }) => [path, kind])).toEqual([
      ["policy.precision", "changed"],
      ["policy.callbacks", "invalid"],
    ]);
    expect(changes[1]).toMatchObject({ before: [], after: "Row 1: choose a name." });
    expect(tiers.sections[0]?.changed).toBe(2);
  });
  it("belong to the field whose value contains them", () => {
    const ordered = sectionsOf({
      type: "object",
      properties: {
        lessons: { type: "object", additionalProperties: { type: "object", properties: { spec: { type: "string" } } }, "x-order": "order" },
        order: { type: "array", items: { type: "string" } },
      },
    });
    expect(["lessons.a.spec", "lessons", "order", "orders"].map((path) => fieldOfChange(ordered, path)?.path)).toEqual([
      "lessons",
      "lessons",
      "lessons",
      undefined,
    ]);
    const own = { lessons: { a: { spec: "x" } }, order: ["a"] };
    const wrong = { lessons: answerOfRows([{ name: "", answers: { spec: "y" } }]) };
    const { config, problems } = collect(ordered, wrong);
    expect(filled(ordered, config, problems, own)).toEqual(own);
  });
});
