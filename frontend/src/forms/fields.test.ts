import { describe, expect, it } from "vitest";
import { answersOf, collect, defaultText, read } from "./answers";
import { placeErrors } from "./errors";
import { type JsonSchema, rangeOf, sectionsOf } from "./fields";

/** What the platform's schema looks like, one field of each kind. */
const schema: JsonSchema = {
  $ref: "#/$defs/RunConfig",
  $defs: {
    RunConfig: {
      type: "object",
      properties: {
        environment: {
          $ref: "#/$defs/EnvironmentConfig",
          default: { spec: "gymnasium:CartPole-v1", kwargs: {}, restart_interval_seconds: null },
        },
        policy: { $ref: "#/$defs/PolicyConfig", default: { kind: "mlp", hidden_sizes: [64, 64] } },
        num_steps: { title: "Train steps", description: "Planned.", type: "integer", minimum: 1, maximum: 2147483648, default: 1000 },
      },
    },
    EnvironmentConfig: {
      title: "EnvironmentConfig",
      description: "Which environment the fleet steps.",
      type: "object",
      properties: {
        spec: { title: "Environment", type: "string", pattern: "^[a-z_]+:[\\w./:-]{1,120}$", default: "gymnasium:CartPole-v1" },
        kwargs: { title: "Arguments", type: "object", default: {} },
        restart_interval_seconds: {
          title: "Restart interval",
          "x-unit": "s",
          anyOf: [{ type: "number", exclusiveMinimum: 0 }, { type: "null" }],
          default: null,
        },
      },
    },
    PolicyConfig: {
      description: "The policy.",
      type: "object",
      properties: {
        kind: { title: "Policy", enum: ["mlp"], default: "mlp" },
        hidden_sizes: {
          title: "Hidden layers",
          type: "array",
          items: { type: "integer", minimum: 1, maximum: 8192 },
          minItems: 1,
          maxItems: 8,
        },
      },
    },
    BufferConfig: {
      type: "object",
      properties: {
        batch_size: { title: "Batch size", type: "integer", default: 16 },
        replay: { $ref: "#/$defs/ReplayConfig", default: { alpha: 0.6 } },
      },
    },
    ReplayConfig: {
      description: "Which fragments a batch takes.",
      type: "object",
      properties: { alpha: { title: "Alpha", type: "number", default: 0.6 } },
    },
  },
};
const sections = sectionsOf(schema);
const field = (path: string) => {
  const found = sections.flatMap((s) => s.fields).find((f) => f.path === path);
  if (!found) throw new Error(path);
  return found;
};

it("gives a nested object its own section", () => {
  const nested: JsonSchema = {
    ...schema,
    $ref: "",
    type: "object",
    properties: { buffer: { $ref: "#/$defs/BufferConfig", default: { replay: { alpha: 0.9 } } } },
  };
  const found = sectionsOf(nested);
  expect(found.map((s) => [s.title, s.help, s.fields.map((f) => [f.path, f.default])])).toEqual([
    ["Buffer", "", [["buffer.batch_size", 16]]],
    ["Replay", "Which fragments a batch takes.", [["buffer.replay.alpha", 0.9]]],
  ]);
  expect(collect(found, answersOf(found, {})).config).toEqual({ buffer: { batch_size: 16, replay: { alpha: 0.9 } } });
});

describe("the form", () => {
  it("has a field for every property, top-level ones last", () => {
    expect(sections.map((s) => s.title)).toEqual(["Environment", "Policy", "Length and seed"]);
    expect(sections.flatMap((s) => s.fields.map((f) => f.path))).toEqual([
      "environment.spec",
      "environment.kwargs",
      "environment.restart_interval_seconds",
      "policy.kind",
      "policy.hidden_sizes",
      "num_steps",
    ]);
  });
  it("derives each field's kind, unit, range and default", () => {
    expect(field("num_steps")).toMatchObject({ kind: "integer", range: "1 – 2,147,483,648", default: 1000 });
    expect(field("environment.restart_interval_seconds")).toMatchObject({ kind: "number", unit: "s", optional: true, range: "> 0" });
    expect(field("policy.hidden_sizes")).toMatchObject({ kind: "numbers", range: "1 – 8,192", default: [64, 64] });
    expect(field("policy.kind")).toMatchObject({ kind: "choice", choices: ["mlp"] });
    expect(field("environment.kwargs").kind).toBe("json");
  });
  it("formats bounds", () => {
    expect(rangeOf({ minimum: 0 })).toBe("≥ 0");
    expect(rangeOf({ maximum: 5 })).toBe("≤ 5");
    expect(rangeOf({ exclusiveMinimum: 0, maximum: 60000 })).toBe("> 0 – 60,000");
    expect(rangeOf({})).toBe("");
  });
});

describe("answers", () => {
  it("an unchanged form yields the defaults", () => {
    const { config, problems } = collect(sections, answersOf(sections, {}));
    expect(problems).toEqual({});
    expect(config).toEqual({
      environment: { spec: "gymnasium:CartPole-v1", kwargs: {}, restart_interval_seconds: null },
      policy: { kind: "mlp", hidden_sizes: [64, 64] },
      num_steps: 1000,
    });
  });
  it("start from a preset", () => {
    expect(answersOf(sections, { num_steps: 7, policy: { hidden_sizes: [32] } })).toMatchObject({
      num_steps: "7",
      "policy.hidden_sizes": "32",
      "environment.spec": "gymnasium:CartPole-v1",
    });
  });
  it.each([
    ["num_steps", "0", "Out of range"],
    ["num_steps", "1.5", "whole number"],
    ["num_steps", "many", "Enter a number"],
    ["num_steps", "", "Enter a number"],
    ["environment.spec", "CartPole", "pattern"],
    ["environment.kwargs", "[1]", "object"],
    ["environment.kwargs", "{", "Not valid JSON"],
    ["environment.restart_interval_seconds", "0", "Out of range"],
    ["policy.hidden_sizes", "", "at least 1"],
    ["policy.hidden_sizes", "1,2,3,4,5,6,7,8,9", "at most 8"],
    ["policy.hidden_sizes", "64, 0", "Out of range"],
  ])("%s = %j is refused", (path, answer, reason) => {
    const result = read(field(path), answer);
    expect("problem" in result && result.problem).toContain(reason);
  });
  it("may be empty where the schema allows null", () => {
    expect(read(field("environment.restart_interval_seconds"), " ")).toEqual({ value: null });
  });
});

it("reads lists of anything but numbers as JSON", () => {
  const [section] = sectionsOf({ type: "object", properties: { order: { type: "array", items: { type: "string" }, default: [] } } });
  const order = section?.fields[0] ?? expect.fail("no field");
  expect(read(order, "[]")).toEqual({ value: [] });
  expect(read(order, '["a"]')).toEqual({ value: ["a"] });
  expect(read(order, "{}")).toMatchObject({ problem: expect.stringContaining("list") });
  expect(read(order, "[")).toMatchObject({ problem: expect.stringContaining("Not valid JSON") });
});

describe("server errors", () => {
  it("map to their fields, nested paths to the enclosing field", () => {
    const { placed, loose } = placeErrors(sections, {}, [
      { field: "config.num_steps", message: "too few" },
      { field: "config.policy.hidden_sizes[1]", message: "too many" },
      { field: "name", message: "is taken" },
    ]);
    expect(placed).toEqual({ num_steps: "too few", "policy.hidden_sizes": "too many", name: "is taken" });
    expect(loose).toEqual([]);
  });
  it("without a field are returned separately", () => {
    expect(placeErrors(sections, {}, [{ field: "config.extra", message: "unknown" }]).loose).toEqual(["config.extra: unknown"]);
  });
});

describe("the default of a field", () => {
  const preset = { name: "cartpole", isPreset: true };
  const clone = { name: "the-parent", isPreset: false };
  const steps = field("num_steps");
  const seconds = field("environment.restart_interval_seconds");
  const spec = field("environment.spec");
  const long = "x".repeat(25);

  it("is the preset's value, next to the schema's", () => {
    expect(defaultText(steps, "1000", "1000", preset)).toBe("Default 1,000.");
    expect(defaultText(steps, "1000", "7", preset)).toBe("Default 7, set by cartpole; 1,000 without it.");
    expect(defaultText(seconds, "", "", preset)).toBe("Default empty.");
    expect(defaultText(seconds, "", "30", preset)).toBe("Default 30, set by cartpole; empty without it.");
    expect(defaultText(spec, long, long, preset)).toBe("");
    expect(defaultText(spec, "", long, preset)).toBe("Set by cartpole.");
  });
  it("is the schema's for a clone, next to the value of the cloned run", () => {
    expect(defaultText(steps, "1000", "7", clone)).toBe("Default 1,000; the-parent: 7.");
    expect(defaultText(seconds, "", "30", clone)).toBe("Default empty; the-parent: 30.");
    expect(defaultText(spec, "", long, clone)).toBe("Set by the-parent.");
  });
});
