import { fireEvent, screen, waitFor } from "@testing-library/react";
import { expect, it, onTestFinished, vi } from "vitest";
import type { RunActivity } from "@/api/runs";
import type { components } from "@/api/schema";
import type { RunDetail } from "@/api/types";
import { dialog, fill, here, load, pick, press, serverFor } from "@/testing/page";
import { addRun, listOf, runOf } from "@/testing/runs";
import { Refusal } from "@/testing/server";

const SIX = [5, 4, 3, 2, 1, 0].map((number) =>
  runOf(`sweep-${number}`, { id: number + 1, status: number % 2 === 0 ? "running" : "draft", tags: ["one-of-six", `seed-${number}`] }),
);
const QUALIFIERS: components["schemas"]["QualifierRow"][] = [
  { name: "tag", form: "text", meaning: "Tag.", operators: [":"], choices: [], example: "tag:a" },
  { name: "state", form: "choice", meaning: "State.", operators: [":"], choices: ["running", "draft"], example: "state:running" },
];

function invalid(message: string) {
  return new Refusal({ status: 400, code: "invalid", detail: "The filter is invalid.", errors: [{ field: "q", message }] });
}

/** A server whose filters match the runs that a table states. */
function serverWith(filters: Record<string, ReturnType<typeof runOf>[] | Refusal>) {
  return serverFor()
    .on("GET", "/api/v1/run-filter", { results: QUALIFIERS, next: null })
    .on("GET", "/api/v1/run-filter/values", { results: [{ value: "seed-3", count: 1 }], next: null })
    .on("GET", "/api/v1/runs", ({ query }) => {
      const found = filters[query.get("q") ?? ""] ?? [];
      return found instanceof Refusal ? found : listOf(found);
    })
    .tell("runs", { active: [], resting: [] });
}

const box = () => screen.findByLabelText(/^Filter runs/);
const names = () => [...document.querySelectorAll("tbody [data-open]")].map(({ textContent }) => textContent);

it("completes filters and marks their errors", async () => {
  serverWith({
    "": SIX,
    "tag:seed-3": SIX.filter(({ name }) => name === "sweep-3"),
    "stat:running": invalid("at character 1: unknown qualifier 'stat'"),
  });
  const user = await load("/runs");
  await user.click(await box());
  await user.keyboard("tag:seed-3");
  fireEvent.click(await screen.findByRole("option", { name: /^seed-3/, hidden: true }));
  expect(await screen.findByText("1 run match")).toBeVisible();
  expect(names()).toEqual(["sweep-3"]);

  fill(await box(), "stat:running");
  await user.keyboard("{Enter}");
  expect(await screen.findByText(/at character 1: unknown qualifier 'stat'/)).toBeVisible();
  fill(await box(), "name:nothing-is-called-so");
  await user.keyboard("{Enter}");
  expect(await screen.findByRole("heading", { name: "No matching runs" })).toBeVisible();
});

it("keeps the rows of the last valid filter while one is typed", async () => {
  serverWith({
    "tag:one-of-six": SIX,
    "tag:one-of-six state:": invalid("at character 16: a value is missing"),
    "tag:one-of-six state:draft": SIX.filter(({ status }) => status === "draft"),
  });
  const user = await load("/runs?q=tag:one-of-six");
  expect(await screen.findByText("6 runs match")).toBeVisible();
  await user.click(await box());
  await user.keyboard(" state:");
  expect(await screen.findByText(/at character 16: /)).toBeVisible();
  expect(names()).toHaveLength(6);
  expect(screen.getByText("6 runs match the last valid filter")).toBeVisible();
  expect(screen.queryByRole("button", { name: /All matching/ })).toBeNull();

  await user.keyboard("draft");
  expect(await screen.findByText("3 runs match")).toBeVisible();
  expect(names()).toEqual(["sweep-5", "sweep-3", "sweep-1"]);
});

it("confirms an action on all matching runs and lists those that fail", async () => {
  const q = "tag:one-of-six";
  const server = serverWith({ [q]: SIX });
  const problem = (run: (typeof SIX)[number]) => (run.status === "draft" ? `${run.name} is draft: pause is not allowed` : "");
  server.on("POST", "/api/v1/run-actions", ({ body }) => {
    const acted = body.q ? SIX : SIX.filter(({ id }) => (body.ids as number[]).includes(id));
    const results = acted.map((run) => ({
      id: run.id,
      uid: run.uid,
      name: run.name,
      problem: body.action === "pause" ? problem(run) : "",
    }));
    if (body.action === "archive") server.on("GET", "/api/v1/runs", listOf(SIX.filter((run) => !acted.includes(run))));
    return { results, next_after_id: null, left: 0 };
  });
  await load(`/runs?q=${q}`);
  await screen.findByText("6 runs match");
  await press(/^All matching/);
  await pick("Pause");
  let asked = await dialog("Pause: 6 runs");
  fill(asked.getByLabelText("Reason"), "the cluster moves");
  fireEvent.click(asked.getByRole("button", { name: "Pause" }));
  expect(await screen.findByText("Done for 3 runs; failed for 3 runs:")).toBeVisible();
  expect(screen.getByText(/sweep-1 is draft: pause is not allowed/)).toBeVisible();
  expect(server.bodies("POST", "/api/v1/run-actions")).toMatchObject([{ action: "pause", q, reason: "the cluster moves" }]);
  await press("Close");
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());

  fireEvent.click(screen.getByLabelText("Select sweep-1"));
  await press(/^1 selected/);
  await pick("Archive");
  asked = await dialog("Archive: 1 run");
  fireEvent.click(asked.getByRole("button", { name: "Archive" }));
  expect(await screen.findByText("Done for 1 run.")).toBeVisible();
  expect(server.bodies("POST", "/api/v1/run-actions")[1]).toMatchObject({ action: "archive", ids: [2] });
  await press("Close");
  expect(await screen.findByText("5 runs match")).toBeVisible();
});

/** The queue of a run in a list. */
const holding = (queued: number): RunActivity => ({
  queued,
  workers: null,
  observed_at: null,
  fleet_reason: "",
  return_mean: null,
  return_source: "",
  returns: [],
  accepted_per_second: null,
  staleness_p50: null,
  measured_at: null,
});

it("confirms a stop of all runs by their number, with a reason and the data that is dropped", async () => {
  const server = serverWith({ "": SIX });
  server.on("GET", "/api/v1/run-activity", { results: { "2": holding(512), "4": holding(8) } }).on("POST", "/api/v1/run-actions", {
    results: SIX.map(({ id, uid, name }) => ({ id, uid, name, problem: "" })),
    next_after_id: null,
    left: 0,
  });
  await load("/runs");
  await screen.findByText("6 runs");
  await screen.findByText("512");
  await press(/^All matching/);
  await pick("Stop");
  const asked = await dialog("Stop: 6 runs");
  expect(asked.getByText("520 sequences of 2 runs are queued now.")).toBeVisible();
  const stop = asked.getByRole("button", { name: "Stop" });
  expect(stop).toBeDisabled();
  fill(asked.getByLabelText(/^Reason/), "the sweep is over");
  fill(asked.getByLabelText(/^Type 6 to confirm/), "5");
  expect(stop).toBeDisabled();
  fill(asked.getByLabelText(/^Type 6 to confirm/), "6");
  fill(asked.getByLabelText(/^Reason/), " ");
  expect(stop).toBeDisabled();
  fill(asked.getByLabelText(/^Reason/), "the sweep is over");
  fireEvent.click(stop);
  expect(await screen.findByText("Done for 6 runs.")).toBeVisible();
  const sent = { action: "stop", q: "", all_runs: 6, reason: "the sweep is over" };
  expect(server.bodies("POST", "/api/v1/run-actions")).toMatchObject([sent]);
});

it.each([
  ["Stop", "No data is queued now."],
  ["Delete", "Deletes ended runs with all their data. This cannot be undone."],
])("confirms %s of selected runs by their number and a reason", async (label, does) => {
  serverWith({ "": SIX });
  await load("/runs");
  await screen.findByText("6 runs");
  fireEvent.click(screen.getByLabelText("Select sweep-1"));
  await press(/^1 selected/);
  await pick(label);
  const asked = await dialog(`${label}: 1 run`);
  expect(asked.getByText(does)).toBeVisible();
  const confirm = asked.getByRole("button", { name: label });
  fill(asked.getByLabelText(/^Type 1 to confirm/), "1");
  expect(confirm).toBeDisabled();
  fill(asked.getByLabelText(/^Reason/), "over");
  expect(confirm).toBeEnabled();
});

it("opens a run by a click anywhere on its row, except on its controls", async () => {
  const server = serverWith({ "": SIX });
  addRun(server, SIX[1] as RunDetail);
  await load("/runs");
  const row = (await screen.findByRole("link", { name: "sweep-4" })).closest("tr") as HTMLElement;
  fireEvent.click(screen.getByLabelText("Select sweep-4"));
  expect(here()).toBe("/runs");
  fireEvent.click(row.querySelector("td:last-child") as HTMLElement);
  await waitFor(() => expect(here()).toBe("/runs/sweep-4"));
});

it("claims no state of a run while the server does not answer", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  const kinds = { outside: runOf("pushed", { id: 1 }), paused: runOf("held", { id: 2, status: "paused" }) };
  const over = runOf("over", { id: 3, status: "completed" });
  const server = serverWith({ "": [kinds.outside, kinds.paused, over] });
  await load("/runs");
  expect(await screen.findAllByText("running")).not.toEqual([]);
  server.leave();
  vi.setSystemTime(Date.now() + 25_000);
  const states = () =>
    ["pushed", "held", "over"].map((name) =>
      screen.getByRole("link", { name }).closest("tr")?.querySelector("[data-state]")?.getAttribute("data-state"),
    );
  await waitFor(() => expect(states()).toEqual(["unknown", "unknown", "completed"]), { timeout: 5_000 });
  expect(screen.getByText(/^no server for 2\d s$/)).toBeVisible();
  expect(screen.getByRole("button", { name: /^All matching/ })).toBeDisabled();
  expect(screen.getByRole("button", { name: /^All matching/ })).toHaveAttribute("title", expect.stringMatching(/^No server for 2\d s: /));
});

const LOSSES = [
  runOf("low", { id: 1, tags: ["a"], project: "poles" }),
  runOf("high", { id: 2, tags: ["a", "b"], project: "poles" }),
  runOf("diverged", { id: 3 }),
];
const VALUES: Record<string, Record<string, number | string | null>> = {
  low: { "metric.loss": 1, "config.buffer.size": 64 },
  high: { "metric.loss": 3, "config.buffer.size": 64 },
  diverged: { "metric.loss": "NaN", "config.buffer.size": null },
};

/** A server whose runs have a metric and a configuration value, and the queries it received. */
function serverWithColumns() {
  const asked: URLSearchParams[] = [];
  serverWith({})
    .on("GET", "/api/v1/run-columns", { results: ["config.buffer.size", "metric.kl", "metric.loss"], next: null })
    .on("GET", "/api/v1/runs", ({ query }) => {
      asked.push(query);
      const names = query.get("columns")?.split(",") ?? [];
      const list = listOf(query.get("sort") === "-metric.loss" ? [...LOSSES].sort((a) => (a.name === "high" ? -1 : 1)) : LOSSES);
      const columns = (name: string) => Object.fromEntries(names.map((each) => [each, VALUES[name]?.[each] ?? null]));
      return { ...list, results: list.results.map((run) => ({ ...run, columns: columns(run.name) })) };
    });
  return asked;
}

const cellsOf = (row: Element | null | undefined) => [...(row?.children ?? [])].slice(1).map(({ textContent }) => textContent);

it("adds a metric column from the menu, and sorts by it on the server", async () => {
  const asked = serverWithColumns();
  const user = await load("/runs?cols=kind");
  await press("Columns");
  fill(await screen.findByLabelText("Search columns"), "LOSS");
  expect(await screen.findByText("metric.loss")).toBeInTheDocument();
  expect(screen.queryByText("metric.kl")).toBeNull();
  fireEvent.click(screen.getByText("metric.loss"));
  await waitFor(() => expect(here()).toMatch(/cols=kind(,|%2C)metric\.loss/));
  await waitFor(() => expect(cellsOf(document.querySelector("tbody tr")).slice(1)).toEqual(["outside", "1"]));
  expect(asked.at(-1)?.get("columns")).toBe("metric.loss");
  expect(screen.getByText("NaN")).toBeInTheDocument();

  await user.keyboard("{Escape}");
  await press(/^loss/);
  await waitFor(() => expect(here()).toMatch(/sort=-metric\.loss/));
  await waitFor(() => expect(names()).toEqual(["high", "low", "diverged"]));
});

it("groups runs by a value, with the mean and deviation of each metric", async () => {
  const asked = serverWithColumns();
  await load("/runs?cols=kind,metric.loss&group=config.buffer.size");
  const head = async (name: RegExp) =>
    (await screen.findByText((_text, found) => found?.tagName === "BUTTON" && name.test(found.textContent ?? ""))).closest("tr");
  expect(cellsOf(await head(/64 · 2 runs/)).slice(1)).toEqual(["", "2 ± 1.41"]);
  expect(cellsOf(await head(/none · 1 run/)).slice(1)).toEqual(["", "–"]);
  expect(asked.at(-1)?.get("columns")).toBe("metric.loss,config.buffer.size");
  expect(screen.getByText(/are of the 3 loaded runs/)).toBeVisible();

  fireEvent.click((await head(/64 · 2 runs/))?.querySelector("button") as HTMLElement);
  expect(names()).toEqual(["diverged"]);
});

it("lists a run in the group of each of its tags", async () => {
  serverWithColumns();
  await load("/runs?cols=kind&group=tag");
  expect(await screen.findAllByText("· 2 runs")).toHaveLength(1);
  expect(names()).toEqual(["low", "high", "high", "diverged"]);
});

it("shows the unit in the head, and beside the numbers if runs have different ones", async () => {
  const runs = [runOf("one", { id: 2 }), runOf("two", { id: 4, kind: "fleet" })];
  serverWith({ "": runs, same: runs.slice(0, 1) }).on("GET", "/api/v1/run-activity", { results: { "2": holding(7), "4": holding(8) } });
  await load("/runs?cols=queue&q=same");
  expect(await screen.findByText("7")).toBeInTheDocument();
  const head = () => document.querySelector("thead th:last-child")?.textContent;
  expect(head()).toBe("Queue sequences");
  await load("/runs?cols=queue");
  expect(await screen.findByText("fragments")).toBeInTheDocument();
  expect(head()).toBe("Queue");
});

it("offers the usual list for a link with an unknown column", async () => {
  serverWith({}).on("GET", "/api/v1/runs", ({ query }) => (query.get("columns") ? invalid("unknown column 'metric.x'") : listOf(SIX)));
  await load("/runs?cols=metric.x");
  expect(await screen.findByText("unknown column 'metric.x'")).toBeVisible();
  await press("Show all runs with the usual columns");
  expect(await screen.findByRole("link", { name: "sweep-0" })).toBeVisible();
});
