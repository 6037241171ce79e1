import type { EditorView } from "@codemirror/view";
import { act, fireEvent, screen, waitFor } from "@testing-library/react";
import { expect, it } from "vitest";
import type { Project } from "@/api/projects";
import { launchServer } from "@/testing/launch";
import { dialog, fill, here, load, one, press } from "@/testing/page";
import { listOf } from "@/testing/runs";
import { Refusal } from "@/testing/server";

function projectOf(name: string, changes: Partial<Project> = {}): Project {
  const now = new Date().toISOString();
  return {
    uid: `project_${"0".repeat(24)}`,
    name,
    title: "",
    description: "",
    defaults: { preset: "", config: {}, tags: [] },
    runs: 0,
    created_at: now,
    created_by: "user:ada",
    changed_at: now,
    archived_at: null,
    ...changes,
  };
}

function serverWith(project: Project) {
  return launchServer()
    .on("GET", "/api/v1/projects", ({ query }) => ({ results: query.get("archived") ? [] : [project], next: null }))
    .on("GET", "/api/v1/runs", listOf([]))
    .tell("runs", { active: [], resting: [] });
}

const label = (text: string) => screen.findByLabelText<HTMLElement & { cmTile?: { view: EditorView } }>(text);

/** Replace the YAML of the dialog. */
async function write(text: string): Promise<void> {
  const view = (await label("Project as YAML")).cmTile?.view as EditorView;
  act(() => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }));
}

it("creates a project with defaults, whose errors are at their line and input", async () => {
  const config = { fleet: { num_workers: 4 } };
  const server = serverWith(projectOf("poles", { defaults: { preset: "", config, tags: ["swept"] } }));
  const errors = [
    { field: "defaults.config.fleet.num_workers", message: "at least 1" },
    { field: "name", message: "Letters only." },
  ];
  server.on("POST", "/api/v1/projects", new Refusal({ status: 400, code: "invalid", detail: "Invalid.", errors }));
  await load("/runs?q=state:running");
  await press("Projects");
  fireEvent.click(await screen.findByText("New project"));
  const asked = await dialog("New project");
  const save = asked.getByRole("button", { name: "Save" });
  expect(save).toBeDisabled();
  fill(asked.getByLabelText("Name"), "two words");
  await write("defaults:\n  config:\n    fleet:\n      num_workers: 0\n");
  fireEvent.click(save);
  expect(await asked.findByText("Letters only.")).toBeVisible();
  await waitFor(() => expect(document.querySelector(".cm-lintRange-error")).toHaveTextContent("num_workers"));

  await write("title: Poles\ntitle: again\n");
  fireEvent.click(save);
  expect(asked.getByText(/Duplicate key/)).toBeVisible();
  await waitFor(async () => expect(await label("Project as YAML")).toHaveFocus());

  server.on("POST", "/api/v1/projects", projectOf("poles"));
  fill(asked.getByLabelText("Name"), "poles");
  await write("defaults:\n  config:\n    fleet:\n      num_workers: 4\n");
  fill(asked.getByLabelText("Reason"), "for the sweep");
  fireEvent.click(save);
  expect(await one("[data-defaults]")).toHaveTextContent("sets fleet.num_workers and adds the tags swept");
  const body = { name: "poles", title: "", defaults: { preset: "", config, tags: [] }, reason: "for the sweep" };
  expect(server.bodies("POST", "/api/v1/projects").at(-1)).toMatchObject(body);
});

it("edits the texts and defaults of a project as YAML", async () => {
  const project = projectOf("poles", { title: "Poles", defaults: { preset: "cartpole", config: { seed: 1 }, tags: [] } });
  const server = serverWith(project).on("PATCH", "/api/v1/projects/{project}", project);
  await load("/runs?q=state:running");
  await press("Projects");
  fireEvent.click(await screen.findByText("Edit"));
  const asked = await dialog("Edit project poles");
  expect((await label("Project as YAML")).cmTile?.view.state.doc.toString()).toBe(
    'title: Poles\ndescription: ""\ndefaults:\n  preset: cartpole\n  tags: []\n  config:\n    seed: 1\n',
  );
  await write("defaults: 7\nsurprise: 1\n");
  fireEvent.click(asked.getByRole("button", { name: "Save" }));
  // The server refuses wrong types and unknown fields.
  const body = { title: "", description: "", defaults: 7, surprise: 1, reason: "" };
  await waitFor(() => expect(server.bodies("PATCH", "/api/v1/projects/poles")).toEqual([body]));
});

it("lists the runs of a project, and does not delete one with runs", async () => {
  serverWith(projectOf("two words", { runs: 1 }));
  await load("/runs?q=state:running");
  await press("Projects");
  fireEvent.click(await screen.findByText("Delete"));
  const asked = await dialog("Delete project two words");
  expect(asked.getByText(/It has 1 run. Move them/)).toBeVisible();
  expect(asked.getByRole("button", { name: "Delete" })).toBeDisabled();
  fireEvent.click(asked.getByRole("button", { name: "Cancel" }));
  fireEvent.click(await screen.findByLabelText("Archived"));
  expect(await screen.findByText("No archived projects")).toBeVisible();
  fireEvent.click(screen.getByLabelText("Archived"));
  fireEvent.click(await screen.findByText("two words"));
  await waitFor(() => expect(new URLSearchParams(here().split("?")[1]).get("q")).toBe('project:"two words"'));
  expect(screen.queryByRole("dialog")).toBeNull();
});
