import { expect, test } from "vitest";
import type { FleetPart, LedgerPart, RunDetail } from "@/api/types";
import { nextSteps, startSteps } from "./startSteps";

const ORIGIN = "http://server";
const run = (changed: Partial<RunDetail> = {}) =>
  ({
    name: "a",
    kind: "fleet",
    status: "running",
    config: { policy: { kind: "mlp" } },
    num_workers: 2,
    policy_step: -2,
    served_steps: 0,
    batch_size: 8,
    registered_at: null,
    trainer_started_at: null,
    ...changed,
  }) as RunDetail;
const fleet = (running: number) => ({ workers: Array.from({ length: running }, () => ({ state: "running" })) }) as unknown as FleetPart;
const ledger = (accepted: number) => ({ groups: { accepted } }) as unknown as LedgerPart;
const done = (changed: Partial<RunDetail>, workers = 0, accepted = 0) =>
  startSteps({ run: run(changed), fleet: fleet(workers), ledger: ledger(accepted) }, ORIGIN).map((step) => [step.title, step.isDone]);

test("a fleet needs workers, weights and a batch", () => {
  expect(done({})).toEqual([
    ["Fleet", false],
    ["Trainer", false],
    ["First batch", false],
  ]);
  expect(done({}, 2)[0]).toEqual(["Fleet", true]);
  expect(done({ policy_step: 0 }, 2)[1]).toEqual(["Trainer", true]);
  expect(done({ policy_step: 1, served_steps: 1 }, 2)).toEqual([]);
});

test("the trainer step has the exact command and the scope of its token", () => {
  const [, trainer] = startSteps({ run: run(), fleet: undefined, ledger: undefined }, ORIGIN);
  expect(trainer?.command).toBe("python examples/ppo_cartpole.py --url http://server --run a --token $ROLLDECK_TOKEN");
  expect(trainer?.needs).toEqual({ scope: "trainer", run: "a" });
});

test("a language run names its inference server", () => {
  const language = { kind: "language", config: { language: { inference: "big" } } } as Partial<RunDetail>;
  expect(done(language).map(([title]) => title)).toEqual(["Fleet", "Inference server big", "Trainer", "First batch"]);
  expect(done({ ...language, config: { language: { inference: "" } } }).map(([title]) => title)).not.toContain("Inference server ");
});

test("a language run shows the commands of its inference server and of its trainer", () => {
  const config = { language: { inference: "big", model: { checkpoint: "mine" } } };
  const next = (kind: "rolldeck" | "vllm") => {
    const language = run({ kind: "language", config, inference_server: { kind, port: 8001 } });
    return nextSteps(startSteps({ run: language, fleet: fleet(1), ledger: undefined }, ORIGIN));
  };
  const [server, trainer] = next("rolldeck");
  expect(server?.command).toBe("rolldeck inference --checkpoint $ROLLDECK_CHECKPOINTS/mine --port 8001 --accept-weights");
  expect(server?.needs).toBeUndefined();
  expect(trainer?.title).toBe("Trainer");
  expect(next("vllm").map(({ title }) => title)).toEqual(["Trainer"]);
});

test("one command is shown where steps follow each other", () => {
  const outside = startSteps({ run: run({ kind: "outside", config: {} }), fleet: undefined, ledger: undefined }, ORIGIN);
  expect(nextSteps(outside).map(({ title }) => title)).toEqual(["Trainer"]);
  const trained = startSteps({ run: run({ policy_step: 0 }), fleet: fleet(2), ledger: undefined }, ORIGIN);
  expect(nextSteps(trained).map(({ title }) => title)).toEqual(["First batch"]);
});

test("an outside run needs a trainer before its environments", () => {
  const outside = { kind: "outside", config: {} } as Partial<RunDetail>;
  expect(done(outside)).toEqual([
    ["Trainer", false],
    ["Environment", false],
    ["First batch", false],
  ]);
  const trained = { ...outside, trainer_started_at: "2026-03-01T12:00:00Z" };
  expect(done(trained, 0, 4).map(([, isDone]) => isDone)).toEqual([true, true, false]);
});

test.each(["draft", "paused", "draining", "completed", "stopped", "failed"] as const)("a %s run has no steps", (status) => {
  expect(done({ status })).toEqual([]);
});
