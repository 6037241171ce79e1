import { fireEvent, screen } from "@testing-library/react";
import { expect, it } from "vitest";
import type { Project } from "@/api/projects";
import { launchServer } from "@/testing/launch";
import { dialog, fill, heading, load, one } from "@/testing/page";
import { listOf } from "@/testing/runs";
import { Refusal } from "@/testing/server";

function projectOf(name: string, changes: Partial<Project> = {}): Project {
  const now = new Date().toISOString();
  return {
    ...{ name, title: "", description: "", defaults: { preset: "", config: {}, tags: [] }, runs: 0 },
    ...{ created_at: now, created_by: "user:ada", changed_at: now, archived_at: null },
    ...changes,
  };
}

function serverWith(project: Project) {
  return launchServer()
    .on("GET", "/api/v1/projects/{project}", project)
    .on("GET", "/api/v1/projects", { results: [], next: null })
    .on("GET", "/api/v1/runs", listOf([]))
    .tell("runs", { active: [], resting: [] });
}

it("creates a project with defaults, whose errors are at their input", async () => {
  const config = { fleet: { num_workers: 4 } };
  const server = serverWith(projectOf("poles", { defaults: { preset: "", config, tags: [] } }));
  const errors = [{ field: "defaults.config.fleet.num_workers", message: "at least 1" }];
  server.on("POST", "/api/v1/projects", new Refusal({ status: 400, code: "invalid", detail: "Invalid.", errors }));
  await load("/projects");
  fireEvent.click((await screen.findAllByRole("button", { name: "New project" }))[0] as HTMLElement);
  const asked = await dialog("New project");
  const save = asked.getByRole("button", { name: "Save" });
  fill(asked.getByLabelText("Name"), "two words");
  expect(save).toBeDisabled();
  fill(asked.getByLabelText("Name"), "poles");
  fill(asked.getByLabelText("Configuration"), '{"fleet": {"num_workers": 0}}');
  fireEvent.click(save);
  expect((await asked.findAllByText(/^fleet.num_workers: /))[0]).toBeVisible();

  server.on("POST", "/api/v1/projects", projectOf("poles"));
  fill(asked.getByLabelText("Configuration"), JSON.stringify(config));
  fill(asked.getByLabelText("Reason"), "for the sweep");
  fireEvent.click(save);
  expect(await heading("poles", 1)).toBeVisible();
  expect(await one("[data-default='fleet.num_workers']")).toHaveTextContent("fleet.num_workers = 4");
  expect(await heading("No runs in this project")).toBeVisible();
  expect(server.bodies("POST", "/api/v1/projects")[1]).toMatchObject({ name: "poles", defaults: { config }, reason: "for the sweep" });
});
