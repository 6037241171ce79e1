import { expect, it } from "vitest";
import { applies, type Condition, conditionsText } from "./conditions";

const config = { policy: { kind: "gru" }, evaluation: { every: 0 }, language: null };

it.each<[Condition[], boolean]>([
  [[], true],
  [[{ field: "policy.kind", is: ["cnn", "gru"] }], true],
  [[{ field: "policy.kind", is: ["cnn"] }], false],
  [[{ field: "policy.kind", not: ["mlp", "cnn"] }], true],
  [[{ field: "evaluation.every", not: [0] }], false],
  [[{ field: "language", is: [null] }], true],
  [[{ field: "missing.path", is: [null] }], true],
  [
    [
      { field: "policy.kind", is: ["gru"] },
      { field: "evaluation.every", not: [0] },
    ],
    false,
  ],
])("%j applies: %s", (when, expected) => expect(applies(when, config)).toBe(expected));

it("describes conditions with the titles of their fields", () => {
  const titles: Record<string, string> = {
    "policy.kind": "Policy",
    checkpoint: "Checkpoint",
    spec: "Environment",
    inside: "In the worker",
  };
  const text = (when: Condition[]) => conditionsText(when, (path) => titles[path] ?? path);
  expect(text([{ field: "policy.kind", is: ["cnn", "gru"] }])).toBe("Policy is cnn or gru");
  expect(text([{ field: "checkpoint", is: [""] }])).toBe("Checkpoint is empty");
  expect(
    text([
      { field: "inside", is: [false] },
      { field: "spec", not: ["cartpole"] },
    ]),
  ).toBe("In the worker is off and Environment is not cartpole");
  expect(text([{ field: "policy.kind", not: ["mlp"] }])).toBe("Policy is not mlp");
});
