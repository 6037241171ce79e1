import { expect, it } from "vitest";
import type { Project } from "@/api/projects";
import { cliCommand, defaultsText, launchIn, merged, presetsIn } from "@/forms/launch";

const PROJECT = {
  name: "poles",
  defaults: { preset: "cartpole", config: { seed: 7, fleet: { num_workers: 4 } }, tags: ["ablation"] },
} as unknown as Project;
const LAUNCH = { name: "alpha", preset: "cartpole", config: { seed: 8 } };

it("merges objects at every depth and replaces other values", () => {
  expect(merged({ a: { b: 1, c: [1] }, d: 1 }, { a: { c: [2] }, d: { e: 1 } })).toEqual({ a: { b: 1, c: [2] }, d: { e: 1 } });
});

it("starts each preset with the project's configuration", () => {
  const preset = { name: "cartpole", title: "", config: { seed: 0, fleet: { num_workers: 1, env_slots: 2 } } };
  expect(presetsIn(PROJECT, [preset])[0]?.config).toEqual({ seed: 7, fleet: { num_workers: 4, env_slots: 2 } });
  expect(presetsIn(undefined, [preset])).toEqual([preset]);
});

it("launches in the project, with its defaults unless the configuration is whole", () => {
  expect(launchIn(PROJECT, LAUNCH)).toEqual({ ...LAUNCH, project: "poles" });
  expect(launchIn(PROJECT, { ...LAUNCH, preset: "" })).toMatchObject({ project: "poles", uses_project_defaults: false });
  expect(launchIn(undefined, LAUNCH)).toEqual(LAUNCH);
});

it("names the values that the project sets", () => {
  expect(defaultsText(PROJECT)).toBe("sets seed, fleet.num_workers and adds the tags ablation");
});

it("names the project in the copied commands", () => {
  const launch = launchIn(PROJECT, { ...LAUNCH, preset: "" });
  expect(cliCommand(launch)).toContain("--name alpha --project poles --no-project-defaults --set");
});
