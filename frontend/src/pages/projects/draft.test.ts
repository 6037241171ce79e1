import { expect, it } from "vitest";
import type { Project } from "@/api/projects";
import { changeOf, configOf, creationOf, draftErrors, draftOf, placedErrors } from "./draft";

const PROJECT: Project = {
  name: "poles",
  title: "Poles",
  description: "",
  defaults: { preset: "cartpole", config: { seed: 7 }, tags: ["ablation"] },
  runs: 2,
  created_at: "2026-03-01T12:00:00Z",
  created_by: "user:olga",
  changed_at: "2026-03-01T12:00:00Z",
  archived_at: null,
};

it("sends only the changed fields of a project", () => {
  const draft = { ...draftOf(PROJECT), name: "poles-2", config: '{"seed": 8}' };
  expect(changeOf(draft, PROJECT, "why")).toEqual({ name: "poles-2", defaults: { config: { seed: 8 } }, reason: "why" });
  expect(changeOf(draftOf(PROJECT), PROJECT, "")).toEqual({ defaults: {}, reason: "" });
});

it("creates a project with its defaults", () => {
  const draft = { ...draftOf(undefined), name: "new", tags: ["a"] };
  const defaults = { preset: "", tags: ["a"], config: {} };
  expect(creationOf(draft, "")).toEqual({ name: "new", title: "", description: "", defaults, reason: "" });
});

it("refuses names outside the rules and configurations that are no JSON object", () => {
  expect(draftErrors(draftOf(PROJECT))).toEqual({});
  expect(Object.keys(draftErrors({ ...draftOf(PROJECT), name: "a b", config: "[1]" }))).toEqual(["name", "config"]);
  expect(Object.keys(draftErrors({ ...draftOf(PROJECT), name: "x".repeat(81) }))).toEqual(["name"]);
  expect(configOf("  ")).toEqual({});
  expect(configOf("{")).toBeNull();
});

it("places the server's errors at their inputs", () => {
  const errors = [
    { field: "name", message: "taken" },
    { field: "defaults.config.fleet.num_workers", message: "at least 1" },
    { field: "defaults.config.seed", message: "at least 0" },
    { field: "defaults.preset", message: "not found" },
  ];
  expect(placedErrors(errors)).toEqual({
    name: "taken",
    config: "fleet.num_workers: at least 1; seed: at least 0",
    preset: "not found",
  });
});
