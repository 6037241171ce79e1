import { expect, test } from "vitest";
import { environmentCommand, trainerCommand, wordsOf } from "@/runs/words";

test("fleet runs count env steps, language runs episodes and tokens", () => {
  expect(wordsOf("fleet")).toMatchObject({ work: "Env steps", length: "env steps", slot: "env slot" });
  expect(wordsOf("language")).toMatchObject({ work: "Episodes", length: "tokens" });
});

const mlp = { policy: { kind: "mlp" } };

test("each kind of run has its own example trainer", () => {
  expect(trainerCommand({ kind: "fleet", name: "a", config: mlp, batch_size: 8 }, "http://server")).toBe(
    "python examples/ppo_cartpole.py --url http://server --run a --token $ROLLDECK_TOKEN",
  );
  expect(trainerCommand({ kind: "fleet", name: "a", config: { policy: { kind: "gru" } }, batch_size: 8 }, "http://server")).toContain(
    "examples/ppo_recurrent.py",
  );
  expect(trainerCommand({ kind: "language", name: "b", config: {}, batch_size: 8 }, "http://server")).toBe(
    "python examples/grpo.py --url http://server --run b --token $ROLLDECK_TOKEN",
  );
});

test("outside runs and registered policies show a generic trainer", () => {
  const outside = { kind: "outside", name: "c", config: {} } as const;
  const lines = trainerCommand({ ...outside, batch_size: null }, "http://server");
  expect(lines).toContain('Trainer("http://server", run="c", token="$ROLLDECK_TOKEN")');
  expect(lines).toContain("register(batch_size=32)");
  expect(trainerCommand({ ...outside, batch_size: 4 }, "http://server")).toContain("register()");
  const own = { policy: { kind: "module:my_lab:Net" } };
  expect(trainerCommand({ kind: "fleet", name: "d", config: own, batch_size: 8 }, "http://server")).toContain('run="d"');
  expect(environmentCommand("c", "https://server:8000")).toContain('"https://env:$ROLLDECK_TOKEN@server:8000/atropos/c"');
});
