import { describe, expect, it } from "vitest";
import found from "@/testing/run-config-schema.json";
import { essentialsOf, textOf, valueOfText } from "./fields";
import { type Config, completed, edited, type JsonSchema, schemaAt, withOrders } from "./schema";

const root = found.schema as unknown as JsonSchema;
const preset = (name: string) => found.presets.find((each) => each.name === name)?.config as unknown as Config;

describe("a configuration", () => {
  it("that is complete stays as it is", () => {
    for (const { config } of found.presets) expect(completed(config as unknown as Config, root)).toEqual(config);
  });

  it("is completed with the defaults, also of parts and of tables", () => {
    const whole = completed({ fleet: { num_workers: 4 }, language: { lessons: { a: { spec: "task:sort" } } }, surprise: 1 }, root);
    expect(whole).toMatchObject({ fleet: { num_workers: 4, fragment_length: 128 }, seed: 0, surprise: 1 });
    expect(whole.language).toMatchObject({ group_size: 8, lessons: { a: { spec: "task:sort", stop_success: 0.9, kwargs: {} } } });
    expect(completed({}, root)).toMatchObject({ language: null, policy: { hidden_sizes: [64, 64] } });
  });

  it("is edited without the fields that do not apply", () => {
    const shown = edited(preset("cartpole"), root);
    expect(shown).not.toHaveProperty("language");
    expect(shown.policy).not.toHaveProperty("channels");
    expect(edited(preset("curriculum"), root)).not.toHaveProperty("environment");
  });

  it("has its lessons in their order, which the order of the text sets", () => {
    const config = { language: { lessons: { a: {}, b: {}, c: {} }, lesson_order: ["c", "a"] } };
    const shown = edited(config, root) as { language: { lessons: object } };
    expect(Object.keys(shown.language.lessons)).toEqual(["c", "a", "b"]);
    expect(shown.language).not.toHaveProperty("lesson_order");
    expect(withOrders(shown, root)).toMatchObject({ language: { lesson_order: ["c", "a", "b"] } });
    expect(withOrders({ seed: 1 }, root)).toEqual({ seed: 1 });
  });
});

it("finds the schema at a path, through tables and lists", () => {
  expect(schemaAt(root, ["fleet", "num_workers"])?.title).toBe("Workers");
  expect(schemaAt(root, ["language", "lessons", "any", "requires", "min_success"])?.type).toBe("number");
  expect(schemaAt(root, ["fleet", "nonsense"])).toBeUndefined();
});

describe("essential fields", () => {
  const titles = (name: string) => essentialsOf(root, preset(name)).map(({ title }) => title);

  it("are those of the kind of run that have one value", () => {
    expect(titles("cartpole")).toContain("Environment");
    expect(titles("cartpole")).not.toContain("Group size");
    expect(titles("curriculum")).toContain("Group size");
    expect(titles("curriculum")).not.toContain("Lessons");
    expect(titles("cartpole").length).toBeLessThanOrEqual(12);
  });

  it("are text in their inputs; wrong text stays text", () => {
    const field = (kind: "number" | "numbers" | "text", isNullable = false) => ({ kind, isNullable }) as Parameters<typeof textOf>[0];
    expect(valueOfText(field("number"), "1,024")).toBe(1024);
    expect(valueOfText(field("number"), "many")).toBe("many");
    expect(valueOfText(field("number", true), " ")).toBeNull();
    expect(valueOfText(field("number"), "")).toBe("");
    expect(valueOfText(field("numbers"), "64, 32 x")).toEqual([64, 32, "x"]);
    expect(valueOfText(field("text"), "007")).toBe("007");
    expect(textOf(field("numbers"), [64, 32])).toBe("64, 32");
    expect(textOf(field("text"), null)).toBe("");
  });
});
