import { expect, it } from "vitest";
import { formatOf, jsonOf, placeAt, readJson } from "./configText";
import { errorPosition } from "./jsonErrors";
import { placeOfField, readYaml, yamlOf } from "./yamlText";

const config = {
  environment: { spec: "gymnasium:CartPole-v1", kwargs: { note: "yes: no # really", off: "off", version: "1.0" } },
  fleet: { num_workers: 2, resources: {} },
  policy: { hidden_sizes: [64, 64] },
  language: null,
  seed: 0,
  rate: 1e-7,
};
const problemOf = (read: ReturnType<typeof readJson>) => ("problem" in read ? read.problem : "none");

it("round-trips both formats", () => {
  expect(readYaml(yamlOf(config))).toEqual({ config });
  expect(readJson(jsonOf(config))).toEqual({ config });
  // JSON is YAML too.
  expect(readYaml(jsonOf(config))).toEqual({ config });
});
it("reports line and column of errors", () => {
  expect(problemOf(readYaml("seed: 1\nfleet:\n  num_workers: [1, 2\n"))).toMatch(/^Invalid YAML at line \d+, column \d+: /);
  expect(problemOf(readYaml("seed: 1\nseed: 2\n"))).toContain("at line 2, column 1: ");
  expect(problemOf(readJson('{\n  "seed": 1,\n  "x": nope\n}'))).toContain("at line 3, column 8: expected a value");
  expect(problemOf(readJson('{\n  "seed": 1'))).toContain("at line 2, column 12: expected a comma or the end");
  expect(placeAt("ab\ncd", 4)).toBe("line 2, column 2");
});
it("locates any JSON error", () => {
  const places: [string, number][] = [
    ["", 0],
    ["{", 1],
    ['{"a"}', 4],
    ['{"a": 1,}', 8],
    ["[1, 2,]", 6],
    ["[1 2]", 3],
    ['{"a": 01}', 6],
    ["{} {}", 3],
    ['{"a": "\\x"}', 6],
    ["[}", 1],
    ['{"a": [1}', 8],
    ["{a: 1}", 1],
    ['{"a": truely}', 6],
  ];
  for (const [text, offset] of places) {
    expect(() => JSON.parse(text)).toThrow();
    expect([text, errorPosition(text).offset]).toEqual([text, offset]);
  }
});
it("rejects text that is not a configuration", () => {
  for (const text of ["", "just words", "- a\n- b", "42"]) expect(problemOf(readYaml(text))).toContain("A mapping is required");
  expect(problemOf(readJson("[]"))).toContain("A JSON object is required");
  expect(problemOf(readYaml("a:\n  b: .inf"))).toContain("a.b is not a finite number");
  expect(problemOf(readYaml("a: !!js/function 'x'"))).toContain("line 1");
});
it("limits alias expansion", () => {
  const bomb = [
    "a: &a [x, x, x, x, x, x, x, x, x]",
    ...["b", "c", "d", "e"].map((name, at) => `${name}: &${name} [${Array(9).fill(`*${"abcd"[at]}`).join(", ")}]`),
  ];
  expect(problemOf(readYaml(bomb.join("\n")))).toContain("Cannot parse");
});
it("detects the pasted format", () => {
  expect(formatOf(jsonOf(config), "yaml")).toBe("json");
  expect(formatOf(yamlOf(config), "json")).toBe("yaml");
  expect(formatOf('{ "seed": ', "json")).toBe("json");
  expect(formatOf("  ", "yaml")).toBe("yaml");
});
it("finds a field in both formats", () => {
  expect(placeOfField(yamlOf(config), "fleet.num_workers")).toBe("line 8, column 3");
  expect(placeOfField('{\n  "a": {"b": 1}\n}', "a.b")).toBe("line 2, column 9");
  expect(placeOfField("a: 1", "b.c")).toBeNull();
});
