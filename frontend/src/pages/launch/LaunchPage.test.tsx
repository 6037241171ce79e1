import { EditorView } from "@codemirror/view";
import { act, fireEvent, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it, vi } from "vitest";
import type { Config } from "@/forms/schema";
import { checkOf, launchServer, presets, savedPreset } from "@/testing/launch";
import { dialog, fill, heading, here, load, one, reload } from "@/testing/page";
import { addRun, runOf } from "@/testing/runs";
import { Refusal, type Server } from "@/testing/server";

const label = (text: string | RegExp) => screen.findByLabelText(text);
const press = (name: string | RegExp) => fireEvent.click(screen.getByRole("button", { name }));
const EDITOR = "Configuration as YAML";

/** The editor, which the page loads with a copy of its module. */
async function editor() {
  const content = (await label(EDITOR)) as HTMLElement & { cmTile?: { view: EditorView } };
  return (content.cmTile?.view ?? EditorView.findFromDOM(content)) as EditorView;
}
const yaml = async () => (await editor()).state.doc.toString();

/** Replace a part of the YAML, or all of it. */
async function edit(before: string | null, after: string): Promise<void> {
  const view = await editor();
  const text = view.state.doc.toString();
  const from = before === null ? 0 : text.indexOf(before);
  expect(from).toBeGreaterThanOrEqual(0);
  act(() => view.dispatch({ changes: { from, to: before === null ? text.length : from + before.length, insert: after } }));
}

/** The 1-based line of a text in the YAML. */
async function lineOf(part: string): Promise<number> {
  const text = await yaml();
  return text.slice(0, text.indexOf(part)).split("\n").length;
}

const quickChecks = (server: Server) => server.bodies("POST", "/api/v1/run-checks").filter(({ fields_only }) => fields_only);
const errors = () => screen.findByRole("list", { name: "Errors" });

describe("presets", () => {
  it("have cards that state their kind and needs, and start the form", async () => {
    launchServer(savedPreset("four-workers", { fleet: { num_workers: 4 } }));
    await load("/runs/new");
    const cards = within(await screen.findByRole("region", { name: "Presets" }));
    const chosen = await one("[data-preset=cartpole]");
    expect(chosen).toHaveAttribute("aria-current", "page");
    expect(chosen).toHaveTextContent("CartPole-v1 with PPO");
    expect(chosen).toHaveTextContent("Needs 2 workers · 0.5 CPUs · no GPU");
    expect(await one("[data-preset=curriculum]")).toHaveTextContent("language");

    const own = await cards.findByText("four-workers");
    expect(own.closest("a")).toHaveTextContent("saved");
    fireEvent.click(own);
    await waitFor(() => expect(own.closest("a")).toHaveAttribute("aria-current", "page"));
    expect(await label("Workers")).toHaveValue("4");
  });

  it("are what the configuration of a run is compared with", async () => {
    const config = { ...presets.cartpole, fleet: { ...(presets.cartpole?.fleet as Config), num_workers: 3 } };
    addRun(launchServer(), runOf("three-workers", { kind: "fleet", preset: "cartpole", config }));
    await load("/runs/three-workers/config");
    const changes = await screen.findByRole("table", { name: "Changes from cartpole" });
    expect(within(changes).getAllByRole("row")).toHaveLength(1);
    expect(changes.querySelector("[data-path='fleet.num_workers']")).toHaveTextContent("2 → 3");
  });

  it("are saved, used, changed and deleted", async () => {
    const name = "launch-six";
    const server = launchServer();
    let saved = savedPreset(name, {});
    const keep = (config: object, revision: number) => {
      saved = { ...saved, config: config as Config, revision };
      server.on("GET", "/api/v1/presets", { results: [saved], next: null });
      return saved;
    };
    server.on("POST", "/api/v1/presets", ({ body }) => keep(body.config as Config, 1));
    server.on("PATCH", "/api/v1/presets/{preset}", ({ body }) => keep(body.config as Config, 2));
    server.on("DELETE", "/api/v1/presets/{preset}", () => {
      server.on("GET", "/api/v1/presets", { results: [], next: null });
      return null;
    });
    await load("/runs/new?preset=cartpole");
    fill(await label("Workers"), "6");
    press("Save as preset…");
    let asked = await dialog("Save as preset");
    fill(asked.getByLabelText(/^Name/), name);
    fill(asked.getByLabelText("Description"), "six workers");
    fireEvent.click(asked.getByLabelText("Shared"));
    fill(asked.getByLabelText("Reason"), "for the sweep");
    fireEvent.click(asked.getByRole("button", { name: "Save" }));

    await waitFor(() => expect(here()).toContain(`preset=${name}`));
    expect(await screen.findByText(`No changes from ${name}.`)).toBeVisible();
    expect(await label("Workers")).toHaveValue("6");
    expect(server.bodies("POST", "/api/v1/presets")).toMatchObject([
      { name, description: "six workers", access: "shared", reason: "for the sweep", config: { fleet: { num_workers: 6 } } },
    ]);

    fill(await label("Workers"), "7");
    const changes = await screen.findByRole("table", { name: `Changes from ${name}` });
    expect(changes.querySelector("[data-path='fleet.num_workers']")).toHaveTextContent("6 → 7");
    press("Save as preset…");
    asked = await dialog("Save as preset");
    fireEvent.click(asked.getByRole("button", { name: "Replace" }));
    await waitFor(() => expect(server.bodies("PATCH", `/api/v1/presets/${name}`)).toHaveLength(1));
    // The form starts again from the new revision.
    await waitFor(() => {
      expect(screen.getByText(`No changes from ${name}.`)).toBeVisible();
      expect(screen.getByLabelText("Workers")).toHaveValue("7");
    });
    expect(server.bodies("PATCH", `/api/v1/presets/${name}`)).toMatchObject([{ revision: 1, config: { fleet: { num_workers: 7 } } }]);

    press(`Delete ${name}…`);
    asked = await dialog(`Delete the preset ${name}?`);
    fill(asked.getByLabelText("Reason"), "too many");
    fireEvent.click(asked.getByRole("button", { name: "Delete" }));
    await waitFor(() => expect(here()).toBe("/runs/new"));
    expect(screen.queryByText(`No preset named ${name}`)).toBeNull();
    expect(server.asked.find(({ verb }) => verb === "DELETE")?.query.get("reason")).toBe("too many");
  });
});

describe("the YAML", () => {
  it("and the inputs of the essential fields are one configuration", async () => {
    launchServer();
    await load("/runs/new?preset=cartpole");
    expect(await yaml()).toMatch(/^fleet:\n {2}num_workers: 2$/m);
    expect(await yaml()).not.toMatch(/channels|language/);

    fill(await label("Workers"), "3");
    expect(await yaml()).toMatch(/^ {2}num_workers: 3$/m);
    await edit("num_workers: 3", "num_workers: 5 # more");
    await waitFor(async () => expect(await label("Workers")).toHaveValue("5"));
    fill(await label("Hidden layers"), "32, 16");
    expect(await yaml()).toContain("hidden_sizes: [32, 16]");
    expect(await yaml()).toContain("num_workers: 5 # more");
    const changes = await screen.findByRole("table", { name: "Changes from cartpole" });
    expect(within(changes).getAllByRole("row")).toHaveLength(2);

    await reload();
    expect(await yaml()).toContain("num_workers: 5 # more");
    press("Discard changes");
    expect(await screen.findByText("No changes from cartpole.")).toBeVisible();
    expect(await label("Workers")).toHaveValue("2");
  });

  it("is launched as the preset with its changes", async () => {
    const server = launchServer();
    server.on("POST", "/api/v1/runs", addRun(server, runOf("cartpole-1")));
    await load("/runs/new?preset=cartpole");
    await waitFor(async () => expect(await label("Name")).toHaveValue("cartpole-1"));
    await edit("batch_size: 16", "batch_size: 64");
    press("Launch");
    expect(await heading("cartpole-1", 1)).toBeVisible();
    expect(server.bodies("POST", "/api/v1/runs")).toMatchObject([
      { name: "cartpole-1", preset: "cartpole", config: { buffer: { batch_size: 64 } }, start: true },
    ]);
  });

  it("is launched as a whole if a field of the preset is removed", async () => {
    const server = launchServer();
    server.on("POST", "/api/v1/runs", addRun(server, runOf("cartpole-1")));
    await load("/runs/new?preset=cartpole");
    await waitFor(async () => expect(await label("Name")).toHaveValue("cartpole-1"));
    await edit(null, "seed: 4\n");
    press("Launch");
    expect(await heading("cartpole-1", 1)).toBeVisible();
    expect(server.bodies("POST", "/api/v1/runs")).toMatchObject([{ preset: "", config: { seed: 4 } }]);
  });

  it("has each error of the server at its line and at its input", async () => {
    const server = launchServer();
    await load("/runs/new?preset=cartpole");
    await yaml();
    server.on("POST", "/api/v1/run-checks", checkOf({ "fleet.num_workers": "at most 4096", "fleet.surprise": "is unknown" }));
    await edit("  num_workers: 2", "  num_workers: 9000\n  surprise: 1");
    const list = await errors();
    await waitFor(async () => expect(list).toHaveTextContent(`Line ${await lineOf("num_workers")} fleet.num_workers at most 4096`));
    expect(list).toHaveTextContent(`Line ${await lineOf("surprise")} fleet.surprise is unknown`);
    expect(await label("Workers")).toHaveAttribute("aria-invalid", "true");
    expect(screen.getByText("2 errors.")).toBeVisible();
    expect(document.querySelectorAll(".cm-lintRange-error").length).toBeGreaterThanOrEqual(1);
    const [sent] = quickChecks(server).slice(-1);
    expect(sent).toMatchObject({ preset: "cartpole", config: { fleet: { num_workers: 9000, surprise: 1 } } });

    server.on("POST", "/api/v1/run-checks", checkOf());
    fill(await label("Workers"), "4");
    await waitFor(() => expect(list).toBeEmptyDOMElement());
    expect(await label("Workers")).not.toHaveAttribute("aria-invalid", "true");
  });

  it("with a value of the wrong type reaches the server as it is", async () => {
    const server = launchServer();
    await load("/runs/new?preset=cartpole");
    fill(await label("Workers"), "many");
    await waitFor(() => expect(quickChecks(server).at(-1)).toMatchObject({ config: { fleet: { num_workers: "many" } } }));
  });

  it.each([
    ["a tab", "fleet:\n\tnum_workers: 2\n", 2],
    ["a duplicate key", "seed: 1\nseed: 2\n", 2],
    ["an alias", "fleet: &a\n  num_workers: 2\npolicy: *a\n", 1],
    ["an open bracket", "seed: [1\n", 2],
  ])("with %s is neither checked nor launched", async (_name, text, line) => {
    const server = launchServer();
    await load("/runs/new?preset=cartpole");
    await waitFor(() => expect(quickChecks(server)).toHaveLength(1));
    await edit(null, text);
    expect(await errors()).toHaveTextContent(`Line ${line} `);
    expect(await label("Workers")).toBeDisabled();
    press("Launch");
    press("Check");
    press("Save as preset…");
    expect(await label(EDITOR)).toHaveFocus();
    expect(screen.queryByRole("dialog")).toBeNull();
    expect(server.asked.filter(({ verb }) => verb === "POST")).toHaveLength(1);
  });

  it("of 5,000 lines is edited", async () => {
    const server = launchServer();
    await load("/runs/new?preset=curriculum");
    const lessons = Array.from({ length: 2_000 }, (_, at) => `    lesson-${at}:\n      spec: task:sort\n`).join("");
    await edit(null, `language:\n  lessons:\n${lessons}seed: 3\n`);
    await waitFor(async () => expect(await label("Seed")).toHaveValue("3"));
    await waitFor(() => expect(quickChecks(server).at(-1)).toMatchObject({ config: { seed: 3 } }));
  });

  it("says that fields are not checked while the server refuses checks", async () => {
    launchServer().on("POST", "/api/v1/run-checks", new Refusal({ status: 503, code: "unavailable", detail: "The server is starting." }));
    await load("/runs/new?preset=cartpole");
    expect(await screen.findByText(/Fields not checked: The server is starting/)).toBeVisible();
    expect(screen.getByRole("button", { name: "Launch" })).toBeEnabled();
  });
});

describe("lessons", () => {
  it("are YAML whose order is the order of the lessons", async () => {
    const server = launchServer();
    server.on("POST", "/api/v1/runs", addRun(server, runOf("words-1")));
    await load("/runs/new?preset=curriculum");
    expect(await yaml()).toMatch(/^ {2}lessons:\n {4}one-good:\n {6}spec: task:shopping$/m);
    expect(await yaml()).not.toContain("lesson_order");
    fill(await label("Name"), "words-1");
    await edit("    two-goods:", "    first:\n      spec: task:sort\n    two-goods:");
    press("Launch");
    expect(await heading("words-1", 1)).toBeVisible();
    const [launched] = server.bodies("POST", "/api/v1/runs") as { config: { language: Config } }[];
    expect(launched?.config.language).toMatchObject({
      lessons: { first: { spec: "task:sort" } },
      lesson_order: ["one-good", "first", "two-goods", "three-goods", "larger-prices"],
    });
  });

  it("have the errors of the server at their lines", async () => {
    const server = launchServer();
    await load("/runs/new?preset=curriculum");
    const path = "language.lessons.two-goods.sampling.top_p";
    server.on("POST", "/api/v1/run-checks", checkOf({ [path]: "at most 1" }));
    await edit("seed: 0", "seed: 1");
    await waitFor(async () => expect(await errors()).toHaveTextContent(path));
    const text = await yaml();
    const at = text.indexOf("top_p", text.indexOf("two-goods:"));
    expect(await errors()).toHaveTextContent(`Line ${text.slice(0, at).split("\n").length} `);
    fireEvent.click(within(await errors()).getByRole("button"));
    await waitFor(async () => expect((await editor()).state.selection.main.from).toBe(at));
  });
});

describe("the name", () => {
  it("is suggested by the server for each preset, and a typed one stays", async () => {
    const server = launchServer();
    await load("/runs/new?preset=cartpole");
    await waitFor(async () => expect(await label("Name")).toHaveValue("cartpole-1"));
    expect(server.bodies("POST", "/api/v1/run-checks")[0]).toMatchObject({ name: "cartpole", fields_only: true });
    server.on("POST", "/api/v1/run-checks", checkOf({ name: "a run named 'mine' exists already" }, "mine-2"));
    fill(await label("Name"), "mine");
    expect(await screen.findByText("a run named 'mine' exists already")).toBeVisible();
    expect(await label("Name")).toHaveValue("mine");
  });

  it("keeps its text while it has the focus, also if a suggestion arrives", async () => {
    const server = launchServer();
    await load("/runs/new?preset=cartpole");
    const name = await label("Name");
    await waitFor(() => expect(name).toHaveValue("cartpole-1"));
    act(() => name.focus());
    server.on("POST", "/api/v1/run-checks", checkOf({}, "cartpole-2"));
    await edit("batch_size: 16", "batch_size: 64");
    await waitFor(() => expect(server.bodies("POST", "/api/v1/run-checks")).toHaveLength(2));
    await act(() => new Promise((resolve) => setTimeout(resolve, 50)));
    expect(name).toHaveValue("cartpole-1");
    act(() => name.blur());
    await waitFor(() => expect(name).toHaveValue("cartpole-2"));
  });

  it("that another run took meanwhile is refused at its input", async () => {
    const refusal = new Refusal({ status: 409, code: "run_exists", detail: "A run named 'cartpole-1' exists." });
    launchServer().on("POST", "/api/v1/runs", refusal);
    await load("/runs/new?preset=cartpole");
    await waitFor(async () => expect(await label("Name")).toHaveValue("cartpole-1"));
    press("Launch");
    expect(await screen.findByText("A run named 'cartpole-1' exists.")).toBeVisible();
    expect(await label("Name")).toHaveFocus();
  });
});

it("shows the findings of a check, which lead to their lines", async () => {
  const server = launchServer();
  await load("/runs/new?preset=cartpole");
  await waitFor(async () => expect(await label("Name")).toHaveValue("cartpole-1"));
  server.on("POST", "/api/v1/run-checks", checkOf({ "environment.wrappers[0]": "missing 1 required positional argument" }));
  await edit("wrappers: []", "wrappers:\n    - kind: module:gymnasium.wrappers:TimeLimit");
  press("Check");
  const found = await one("[data-finding='environment.wrappers[0]']");
  expect(found).toHaveTextContent("missing 1 required positional argument");
  fireEvent.click(within(found).getByRole("button"));
  await waitFor(async () => expect(await label(EDITOR)).toHaveFocus());
  expect(await errors()).toHaveTextContent(`Line ${await lineOf("- kind: module")}`);
  fill(await label("Workers"), "3");
  expect(await screen.findByText("outdated: the form has changed")).toBeVisible();
});

it("shows the errors of a refused launch at their lines, and focuses the first", async () => {
  const message = "gymnasium has no environment NoSuchGame-v0";
  const errors_ = [{ field: "config.environment.spec", message }];
  launchServer().on("POST", "/api/v1/runs", new Refusal({ status: 400, code: "invalid", detail: "Invalid.", errors: errors_ }));
  await load("/runs/new?preset=cartpole");
  fill(await label("Environment"), "gymnasium:NoSuchGame-v0");
  press("Launch");
  await waitFor(async () => expect(await label("Environment")).toHaveAttribute("aria-invalid", "true"));
  expect(await errors()).toHaveTextContent(`Line ${await lineOf("spec:")} environment.spec ${message}`);
  expect(await label(EDITOR)).toHaveFocus();
});

it("copies the launch as YAML and as a command", async () => {
  const copied: string[] = [];
  vi.spyOn(document, "execCommand").mockImplementation(() => {
    const clipboardData = { setData: (_type: string, text: string) => copied.push(text) };
    document.dispatchEvent(Object.assign(new Event("copy"), { clipboardData }));
    return true;
  });
  launchServer();
  await load("/runs/new?preset=cartpole");
  await waitFor(async () => expect(await label("Name")).toHaveValue("cartpole-1"));
  fill(await label("Workers"), "3");
  fireEvent.click(screen.getByRole("button", { name: "Copy as command" }));
  await waitFor(() => expect(copied).toHaveLength(1));
  expect(copied[0]).toBe("rolldeck run create --name cartpole-1 --preset cartpole --set fleet.num_workers=3");
});

it("clones a run with its configuration and a name of its own", async () => {
  const cartpole = presets.cartpole as Config & { environment: Config };
  const config: Config = { ...cartpole, environment: { ...cartpole.environment, kwargs: { sutton_barto_reward: true } }, seed: 7 };
  const server = launchServer();
  server.on("POST", "/api/v1/run-checks", checkOf({ name: "a run named 'the-parent' exists already" }, "the-parent-1"));
  addRun(server, runOf("the-parent", { kind: "fleet", config }));
  server.on("POST", "/api/v1/runs", addRun(server, runOf("the-parent-1")));
  await load("/runs/the-parent");
  fireEvent.click(await screen.findByLabelText("More actions"));
  fireEvent.click(await screen.findByText("Clone"));

  expect(await label("Seed")).toHaveValue("7");
  await waitFor(async () => expect(await label("Name")).toHaveValue("the-parent-1"));
  expect(screen.queryByText(/exists already/)).toBeNull();
  expect(screen.getByText("No changes from the-parent.")).toBeVisible();
  fill(await label("Seed"), "8");
  press("Launch");
  expect(await heading("the-parent-1", 1)).toBeVisible();
  const [launched] = server.bodies("POST", "/api/v1/runs");
  expect(launched).toMatchObject({ name: "the-parent-1", preset: "", start: true });
  expect(launched?.config).toMatchObject({ seed: 8, environment: { kwargs: { sutton_barto_reward: true } } });
});

it("cannot be launched by a viewer", async () => {
  const session = { authenticated: true, username: "vic", role: "viewer" as const };
  const server = launchServer().on("GET", "/api/v1/session", session).tell("me", { session });
  await load("/runs/new");
  await label("Name");
  expect(screen.getByRole("button", { name: "Launch" })).toBeDisabled();
  expect(quickChecks(server)).toEqual([]);
});
