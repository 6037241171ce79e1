import { expect, it } from "vitest";
import type { SavedPreset } from "@/forms/api";
import { baseOf, needsOf, startsOf } from "@/forms/launch";

const config = { fleet: { num_workers: 2, num_cpus_per_worker: 0.25, num_gpus_per_worker: 0, resources: {} } };
const saved = (name: string, description = "") =>
  ({ name, description, config: { ...config, language: { lessons: {} } }, access: "open" }) as unknown as SavedPreset;
const builtIn = [{ name: "cartpole", title: "CartPole with PPO", config }];

it("lists saved presets below built-in ones", () => {
  expect(startsOf(builtIn, [saved("four", "Four workers."), saved("bare")]).map(({ name }) => name)).toEqual(["cartpole", "four", "bare"]);
});

it("states what all workers need", () => {
  const fleet = { num_workers: 3, num_cpus_per_worker: 1 / 3, num_gpus_per_worker: 0.25, resources: { simulator: 2 } };
  expect(needsOf({ fleet })).toBe("3 workers · 1 CPU · 0.75 GPUs · 6 simulator");
  expect(needsOf({ language: { model: { checkpoint: "qwen" }, inference: "lab" } })).toBe(
    "1 worker · 0 CPUs · no GPU · checkpoint qwen · server lab",
  );
});

it("compares a run with its preset, like the launch form", () => {
  const at = (changed_at: string) => ({ ...saved("four"), changed_at }) as SavedPreset;
  const run = (preset: string) => ({ preset, created_at: "2026-02-01T00:00:00Z" });
  const presets = startsOf(builtIn, [at("2026-01-01T00:00:00Z")]);
  expect(baseOf(run("cartpole"), presets)).toEqual({ config, from: "cartpole" });
  expect(baseOf(run("four"), presets)).toEqual({ config: presets[1]?.config, from: "four" });
  expect(baseOf(run("four"), startsOf([], [at("2026-03-01T00:00:00Z")])).from).toBe("four, which has changed since the launch");
  expect(baseOf(run("gone"), presets)).toEqual({ config: {}, from: "the defaults, as the preset gone is not available" });
  expect(baseOf(run(""), presets)).toEqual({ config: {}, from: "the defaults" });
});
