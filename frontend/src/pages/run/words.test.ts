import { expect, test } from "vitest";
import { environmentCommand, trainerCommand, wordsOf } from "@/pages/run/words";

test("fleet runs count env steps, language runs episodes and tokens", () => {
  expect(wordsOf("fleet")).toMatchObject({ work: "Env steps", length: "env steps", slots: "env slots" });
  expect(wordsOf("language")).toMatchObject({ work: "Episodes", length: "tokens" });
});

test("each kind of run has its own example trainer", () => {
  expect(trainerCommand({ kind: "fleet", name: "a" }, "http://deck")).toBe(
    "python examples/ppo_cartpole.py --url http://deck --run a --token $ROLLDECK_TOKEN",
  );
  expect(trainerCommand({ kind: "language", name: "b" }, "http://deck")).toBe(
    "python examples/grpo.py --url http://deck --run b --token $ROLLDECK_TOKEN",
  );
});

test("outside runs show a generic trainer", () => {
  expect(trainerCommand({ kind: "outside", name: "c" }, "http://deck")).toContain(
    'Trainer("http://deck", run="c", token="$ROLLDECK_TOKEN")',
  );
  expect(environmentCommand("c", "https://deck:8000")).toContain('"https://env:$ROLLDECK_TOKEN@deck:8000/atropos/c"');
});
