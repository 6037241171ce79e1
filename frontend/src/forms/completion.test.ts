import { expect, it } from "vitest";
import { completionsAt } from "@/forms/completion";
import type { JsonSchema } from "@/forms/schema";
import found from "@/testing/run-config-schema.json";

const root = found.schema as unknown as JsonSchema;

/** The labels at the mark `|` of a text. */
function labels(marked: string, names?: Record<string, string[]>): string[] | null {
  const offset = marked.indexOf("|");
  return completionsAt(marked.replace("|", ""), offset, root, names)?.options.map(({ label }) => label) ?? null;
}

it("completes keys that the mapping does not have", () => {
  expect(labels("fleet:\n  num_workers: 2\n  |\n  device: auto\nseed: 1\n")).toContain("fragment_length");
  expect(labels("fleet:\n  num_workers: 2\n  |\n  device: auto\nseed: 1\n")).not.toContain("num_workers");
  expect(labels("fleet:\n  num_workers: 2\n  |\n  device: auto\nseed: 1\n")).not.toContain("device");
  expect(labels("fleet:\n  num_workers: 2\n|\nseed: 1\n")).toEqual(expect.arrayContaining(["policy", "num_steps"]));
  expect(labels("fleet:\n  num_workers: 2\n|\nseed: 1\n")).not.toContain("seed");
  expect(labels("nonsense:\n  |")).toEqual([]);
});

it("completes inside lessons and lists", () => {
  const lessons = "language:\n  lessons:\n    one.good:\n      spec: task:sort\n";
  expect(labels(`${lessons}      |`)).toContain("stop_success");
  expect(labels(`${lessons}      |`)).not.toContain("spec");
  expect(labels(`${lessons}      sampling:\n        |`)).toContain("top_p");
  expect(labels(`${lessons}      requires:\n        - |`)).toEqual(expect.arrayContaining(["lesson", "min_success"]));
  expect(labels(`${lessons}      requires:\n        - lesson: a\n          |`)).toEqual(["min_success"]);
  expect(labels(`${lessons}      requires:\n      - lesson: a\n      - lesson: b\n        |`)).toEqual(["min_success"]);
});

it("completes values: choices, switches, null and registered names", () => {
  expect(labels("policy:\n  kind: |")).toEqual(["mlp", "cnn", "gru"]);
  expect(labels("ends_at_num_steps: t|")).toEqual(["true", "false"]);
  expect(labels("buffer:\n  replay:\n    max_chunks: |")).toContain("null");
  expect(labels("environment:\n  spec: |", { "environment.spec": ["module:mine"] })).toContain("module:mine");
  expect(labels("fleet:\n  num_workers: 1 # |")).toBeNull();
  expect(labels("surprise: |")).toBeNull();
});

it("describes a field with its range and default", () => {
  const option = completionsAt("fleet:\n  num", 12, root)?.options.find(({ label }) => label === "num_workers");
  expect(option?.info).toMatch(/1 – 4,096\..*Default 1\./);
  expect(option?.insert).toBe("num_workers: ");
});
