import { expect, it } from "vitest";
import { applies, type Condition } from "./schema";

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
