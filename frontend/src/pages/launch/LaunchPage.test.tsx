import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import type { Config } from "@/pages/launch/kinds";
import { launchServer, presets, savedPreset } from "@/testing/launch";
import { fill, heading, here, load, one, reload } from "@/testing/page";
import { addRun, runOf } from "@/testing/runs";
import { Refusal } from "@/testing/server";

const label = (text: string | RegExp) => screen.findByLabelText(text);
const press = (name: string | RegExp) => fireEvent.click(screen.getByRole("button", { name }));
const section = (title: string) => screen.findByRole("button", { name: new RegExp(`^${title} \\d+ field`) });
const fields = () => document.querySelectorAll("#launch-tiers [data-field]");

async function choose(name: string, option: string) {
  fireEvent.click(screen.getByRole("combobox", { name, hidden: true }));
  fireEvent.click(await screen.findByRole("option", { name: option, hidden: true }));
}

async function shownConfig(): Promise<Config> {
  return JSON.parse(((await label("Resolved configuration")) as HTMLTextAreaElement).value);
}

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

  it("are the defaults of the form", async () => {
    launchServer();
    await load("/runs/new?preset=cartpole");
    expect(await screen.findByText("Default 2, set by cartpole; 1 without it.")).toBeVisible();
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
    let dialog = within(await screen.findByRole("dialog", { name: "Save as preset" }));
    fill(dialog.getByLabelText(/^Name/), name);
    fill(dialog.getByLabelText("Description"), "six workers");
    fireEvent.click(dialog.getByLabelText("Shared"));
    fill(dialog.getByLabelText("Reason"), "for the sweep");
    fireEvent.click(dialog.getByRole("button", { name: "Save" }));

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
    dialog = within(await screen.findByRole("dialog", { name: "Save as preset" }));
    fireEvent.click(dialog.getByRole("button", { name: "Replace" }));
    expect(await screen.findByText(`No changes from ${name}.`)).toBeVisible();
    expect(server.bodies("PATCH", `/api/v1/presets/${name}`)).toMatchObject([{ revision: 1, config: { fleet: { num_workers: 7 } } }]);

    press("Saved presets");
    fireEvent.click(await screen.findByRole("button", { name: `Delete ${name}` }));
    dialog = within(await screen.findByRole("dialog", { name: `Delete the preset ${name}?` }));
    fill(dialog.getByLabelText("Reason"), "too many");
    fireEvent.click(dialog.getByRole("button", { name: "Delete" }));
    expect(await screen.findByText(`No preset named ${name}`)).toBeVisible();
    expect(server.asked.find(({ verb }) => verb === "DELETE")?.query.get("reason")).toBe("too many");
  });
});

describe("fields", () => {
  it("that are essential come first, and open sections survive a reload", async () => {
    launchServer();
    await load("/runs/new?preset=pendulum");
    const essentials = within(await screen.findByRole("group", { name: "Essentials" }));
    for (const text of ["Name", "Environment", "Workers", "Hidden layers", "Train steps"])
      expect(essentials.getByLabelText(text)).toBeVisible();
    expect(fields()).toHaveLength(12);
    const fleet = await section("Fleet");
    expect(fleet).toHaveAttribute("aria-expanded", "false");

    fireEvent.click(fleet);
    fill(await label("Send queue"), "5");
    expect(fleet).toHaveTextContent("1 changed");
    await reload();

    expect(await section("Fleet")).toHaveAttribute("aria-expanded", "true");
    expect(await label("Send queue")).toHaveValue("5");
    expect(await section("Replay")).toHaveAttribute("aria-expanded", "false");
  });

  it("of every tier are searched, also with the keyboard", async () => {
    launchServer();
    const user = await load("/runs/new?preset=cartpole");
    await heading("More settings");
    await user.keyboard("/hung");
    await waitFor(() => expect(fields()).toHaveLength(2));
    expect(document.querySelector("#field-matches")).toHaveTextContent(/^2 fields of \d+ match\.$/);

    await user.keyboard("{Enter}");
    expect(await label("Hung after · s")).toHaveFocus();
    const search = screen.getByRole("searchbox", { name: "Search fields" });
    fill(search, "channels");
    expect(await screen.findByText(/1 more does not apply: Channels/)).toBeVisible();
    await user.keyboard("{Escape}");
    expect(search).toHaveValue("");
    expect(fields()).toHaveLength(12);
  });

  it("that are hidden keep their value and are reported", async () => {
    launchServer();
    await load("/runs/new?preset=cartpole");
    fireEvent.click(await section("Policy"));
    expect(await screen.findByRole("combobox", { name: "Precision" })).toBeVisible();
    expect(screen.queryByLabelText("Channels")).toBeNull();
    await choose("Policy", "cnn");
    fill(await label("Channels"), "8, 8");
    await choose("Policy", "mlp");
    expect(screen.queryByLabelText("Channels")).toBeNull();

    const change = await one("[data-path='policy.channels']");
    expect(change).toHaveTextContent("[16,32,32] → [8,8]");
    expect(change).toHaveTextContent("Hidden and without effect: applies if Policy is cnn or gru.");
    fireEvent.click(within(change).getByRole("button", { name: "Reset" }));
    expect(await screen.findByText("No changes from cartpole.")).toBeVisible();

    expect(screen.queryByLabelText(/^Deterministic/)).toBeNull();
    fireEvent.click(await section("Evaluation"));
    fill(await label("Evaluate every · steps"), "5");
    expect(await label(/^Deterministic/)).toBeVisible();
  });

  it("show the error of the server, and the first one gets the focus", async () => {
    const message = "gymnasium has no environment NoSuchGame-v0";
    const errors = [{ field: "config.environment.spec", message }];
    launchServer().on("POST", "/api/v1/runs", new Refusal({ status: 400, code: "invalid", detail: "Invalid.", errors }));
    await load("/runs/new");
    fill(await label("Name"), "refused");
    fill(await label("Environment"), "gymnasium:NoSuchGame-v0");
    press("Launch");
    await waitFor(async () => expect(await label("Environment")).toHaveAttribute("aria-invalid", "true"));
    expect(await label("Environment")).toHaveFocus();
    expect(screen.getAllByText(message)[0]).toBeVisible();
  });

  it("with an unfinished row are invalid and not removed", async () => {
    launchServer();
    await load("/runs/new?preset=cartpole");
    fireEvent.click(await section("Environment"));
    press("Add to wrappers");
    const change = await one("[data-path='environment.wrappers']");
    expect(change).toHaveAttribute("data-change", "invalid");
    expect(change).toHaveTextContent("Row 1: choose a name.");
    expect(document.querySelector("[data-change=removed]")).toBeNull();
  });
});

it("selects extensions, whose arguments become configuration", async () => {
  launchServer();
  await load("/runs/new?preset=cartpole&view=config");
  fireEvent.click(await section("Environment"));
  press("Add to wrappers");
  await choose("Wrappers 1", "module:gymnasium.wrappers:TimeLimit");
  fill(await label("Arguments of wrappers 1"), '{"max_episode_steps": ');
  press("Launch");
  expect(await screen.findByText(/Row 1: enter arguments as a JSON object/)).toBeVisible();

  fill(await label("Arguments of wrappers 1"), '{"max_episode_steps": 9}');
  expect(screen.getByRole("group", { name: "Callbacks" })).toHaveTextContent("None are registered on this server.");
  const wrappers = [{ kind: "module:gymnasium.wrappers:TimeLimit", kwargs: { max_episode_steps: 9 } }];
  expect((await shownConfig()).environment).toMatchObject({ wrappers });
  press("Remove wrappers 1");
  expect((await shownConfig()).environment).toMatchObject({ wrappers: [] });
});

it("keeps the form and the configuration in sync", async () => {
  launchServer();
  await load("/runs/new?preset=cartpole&view=config");
  const shown = await label("Resolved configuration");
  fill(await label("Workers"), "3");
  const config = await shownConfig();
  expect(config.fleet).toMatchObject({ num_workers: 3 });

  const buffer = { ...(config.buffer as Config), batch_size: 64 };
  fill(shown, JSON.stringify({ ...config, buffer }));
  await waitFor(async () => expect(await label("Batch size · fragments")).toHaveValue("64"));
  fill(shown, JSON.stringify({ ...config, buffer, surprise: 1 }));
  expect(await screen.findByText(/^There is no such field: surprise/)).toBeVisible();

  fireEvent.click(screen.getByText("Copy as"));
  const command = await label("Command");
  expect(command).toHaveTextContent("rolldeck launch --name NAME --preset cartpole --config");
  expect(command).toHaveTextContent('{"fleet":{"num_workers":3},"buffer":{"batch_size":64}}');
});

it("edits the configuration as YAML, and detects the format of pasted text", async () => {
  launchServer();
  await load("/runs/new?preset=cartpole&view=config");
  const shown = () => screen.getByLabelText<HTMLTextAreaElement>("Resolved configuration");
  fireEvent.click(within(await screen.findByRole("radiogroup", { name: "Format" })).getByText("YAML"));
  await waitFor(() => expect(shown().value).toMatch(/^fleet:\n {2}num_workers: 2$/m));

  const written = shown().value;
  fill(shown(), written.replace("num_workers: 2", "num_workers: 3 # more"));
  await waitFor(async () => expect(await label("Workers")).toHaveValue("3"));
  fill(shown(), written.replace("  num_workers: 2", "  num_workers: [2"));
  expect(await screen.findByText(/Invalid YAML at line \d+, column \d+/)).toBeVisible();
  fill(shown(), `${written}surprise: 1\n`);
  expect(await screen.findByText(new RegExp(`There is no such field: surprise, at line ${written.split("\n").length}`))).toBeVisible();

  // The format survives a reload.
  await reload();
  await label("Resolved configuration");
  await waitFor(() => expect(shown().value).toMatch(/^ {2}num_workers: 3$/m));
  fireEvent.paste(shown());
  fill(shown(), JSON.stringify({ fleet: { num_workers: 5 }, seed: 11 }));
  await waitFor(async () => expect(await label("Seed")).toHaveValue("11"));
  expect(shown()).toHaveAttribute("data-format", "json");
});

it("shows only the differences of a clone, also after a reload", async () => {
  const cartpole = presets.cartpole as Config & { environment: Config };
  const config: Config = { ...cartpole, environment: { ...cartpole.environment, kwargs: { sutton_barto_reward: true } }, seed: 7 };
  const server = launchServer();
  addRun(server, runOf("the-parent", { kind: "fleet", config }));
  const child = addRun(server, runOf("the-child"));
  server.on("POST", "/api/v1/runs", child);
  await load("/runs/the-parent");
  fireEvent.click(await screen.findByLabelText("More actions"));
  fireEvent.click(await screen.findByText("Clone"));

  expect(await label("Seed")).toHaveValue("7");
  // A clone has no preset: "Default" is the schema's, with the parent's value next to it.
  expect(screen.getByText(/Default (empty|\d+); the-parent: 7\./)).toBeVisible();
  expect(screen.getByText("No changes from the-parent.")).toBeVisible();
  fill(await label("Name"), "the-child");
  fill(await label("Seed"), "8");
  fill(await label("Arguments"), '{"render_fps": 1}');
  await reload();

  const changes = await screen.findByRole("table", { name: "Changes from the-parent" });
  expect(within(changes).getAllByRole("row")).toHaveLength(3);
  expect(changes.querySelector("[data-change=changed][data-path=seed]")).toHaveTextContent("7 → 8");
  expect(changes.querySelector("[data-change=added]")).toHaveTextContent("render_fps");
  expect(changes.querySelector("[data-change=removed]")).toHaveTextContent("sutton_barto_reward");
  fill(await label("Arguments"), '{"sutton_barto_reward": true}');
  press("Launch");
  expect(await heading("the-child", 1)).toBeVisible();
  const [launched] = server.bodies("POST", "/api/v1/runs");
  expect(launched).toMatchObject({ name: "the-child", start: true });
  // The server adds that it is no language run.
  const { language: _none, ...steps } = config;
  expect(launched?.config).toEqual({ ...steps, seed: 8 });
});

it("cannot be launched by a viewer", async () => {
  const session = { authenticated: true, username: "vic", role: "viewer" as const };
  launchServer().on("GET", "/api/v1/session", session).tell("me", { session });
  await load("/runs/new");
  await label("Name");
  expect(screen.getByRole("button", { name: "Launch" })).toBeDisabled();
});
