import { expect, test } from "vitest";
import { environmentCommand, trainerCommand, wordsOf } from "@/pages/run/words";

test("fleet runs count env steps, language runs episodes and tokens", () => {
  expect(wordsOf("fleet")).toMatchObject({ work: "Env steps", length: "env steps", slots: "env slots" });
  expect(wordsOf("language")).toMatchObject({ work: "Episodes", length: "tokens" });
});

test("each kind of run has its own example trainer", () => {
  expect(trainerCommand({ kind: "fleet", name: "a" }, "http://server")).toBe(
    "python examples/ppo_cartpole.py --url http://server --run a --token $ROLLDECK_TOKEN",
  );
  expect(trainerCommand({ kind: "language", name: "b" }, "http://server")).toBe(
    "python examples/grpo.py --url http://server --run b --token $ROLLDECK_TOKEN",
  );
});

test("outside runs show a generic trainer", () => {
  expect(trainerCommand({ kind: "outside", name: "c" }, "http://server")).toContain(
    'Trainer("http://server", run="c", token="$ROLLDECK_TOKEN")',
  );
  expect(environmentCommand("c", "https://server:8000")).toContain('"https://env:$ROLLDECK_TOKEN@server:8000/atropos/c"');
});
