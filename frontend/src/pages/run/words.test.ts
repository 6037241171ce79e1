import { expect, test } from "vitest";
import { trainerCommand, wordsOf } from "@/pages/run/words";

test("a fleet of steps counts env steps, a language run episodes and tokens", () => {
  expect(wordsOf("fleet")).toMatchObject({ work: "Env steps", length: "env steps", slots: "env slots" });
  expect(wordsOf("language")).toMatchObject({ work: "Episodes", length: "tokens" });
});

test("each kind of run is trained by its own example", () => {
  expect(trainerCommand({ kind: "fleet", name: "a" }, "http://deck")).toBe("python examples/ppo_cartpole.py --url http://deck --run a");
  expect(trainerCommand({ kind: "language", name: "b" }, "http://deck")).toBe("python examples/grpo.py --url http://deck --run b");
});
