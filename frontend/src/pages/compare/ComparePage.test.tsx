import { fireEvent, screen, waitFor } from "@testing-library/react";
import { expect, it } from "vitest";
import { lineOf } from "@/testing/metrics";
import { fill, here, load, serverFor } from "@/testing/page";
import { addRun, runOf } from "@/testing/runs";
import { showAll } from "@/testing/viewport";

/** A server with outside runs that have some metrics. */
function serverWith(...names: string[]) {
  const server = serverFor();
  for (const run of ["seen-a", "seen-b"]) addRun(server, runOf(run));
  server
    .on("GET", "/api/v1/runs/{run}/metrics/names", { results: names, next: null })
    .on("GET", "/api/v1/views", { results: [], next: null })
    .on("GET", "/api/v1/metrics/lines", { x: "step", lines: [] });
  return server;
}

/** A server with three runs of two learning rates. */
function serverOfRates() {
  const server = serverWith("loss");
  const rates = { "rate-a": 1, "rate-b": 1, "rate-c": 2 };
  const last = { "rate-a": [4, 2], "rate-b": [4, 4], "rate-c": [9, 7] };
  for (const [name, rate] of Object.entries(rates)) addRun(server, runOf(name, { config: { rate, seed: name } }));
  server.on("GET", "/api/v1/metrics/lines", ({ query }) => ({
    x: "step" as const,
    lines: Object.entries(last).flatMap(([run, values]) =>
      query.get("names")?.includes("loss") ? [lineOf(run, "loss", [0, 1], values)] : [],
    ),
  }));
  return "/compare?runs=rate-a,rate-b,rate-c";
}

const mean = (group: string) => document.querySelector(`[data-fact="loss"] [data-group="${group}"]`)?.textContent;

const shown = () => [...document.querySelectorAll<HTMLElement>("[data-panel]")].map(({ dataset }) => dataset.panel);

it("shows a return first, from the names of each run", async () => {
  serverWith("kl", "loss", "rolldeck/reward/mean");
  await load("/compare?runs=seen-a,seen-b");
  await waitFor(() => expect(shown()).toEqual(["rolldeck/reward/mean", "kl", "loss"]));
});

it("adds a panel of an expression of metrics for all runs", async () => {
  serverWith("kl", "loss");
  await load("/compare?runs=seen-a,seen-b");
  const field = await screen.findByRole("combobox", { name: "Panels" });
  fill(field, "= loss / kl");
  fireEvent.keyDown(field, { key: "Enter", code: "Enter" });
  await waitFor(() => expect(shown()).toEqual(["kl", "loss", "= loss / kl"]));
});

it("opens links of earlier versions", async () => {
  serverWith("kl", "loss");
  await load("/compare?runs=seen-a,seen-b&m=loss");
  await waitFor(() => expect(shown()).toEqual(["loss"]));
});

it("shows mean and spread of runs with equal settings, in chart and table", async () => {
  showAll();
  await load(serverOfRates());
  await waitFor(() => expect(shown()).toEqual(["loss"]));
  fireEvent.click(screen.getByRole("combobox", { name: "Group by" }));
  fireEvent.click(await screen.findByText("rate", { selector: ".mantine-Select-option span" }));
  await waitFor(() => expect(here()).toContain("by=config.rate"));
  await waitFor(() => expect(mean("rate = 1")).toBe("3± 1.41"));
  // A single run has no spread.
  expect(mean("rate = 2")).toBe("7");
  expect(await screen.findByRole("button", { name: /^rate = 1/ })).toBeVisible();
  expect(screen.queryByRole("button", { name: /^rate-a/ })).toBeNull();

  fireEvent.click(screen.getByLabelText("Mean, min – max"));
  await waitFor(() => expect(mean("rate = 1")).toBe("32 … 4"));
  expect(here()).toContain("spread=range");
});

it("excludes hidden runs from their groups", async () => {
  await load(`${serverOfRates()}&by=all&hide=rate-c`);
  await waitFor(() => expect(mean("All runs")).toBe("3± 1.41"));
});

it("shows a grouping of an address that no longer fits the runs", async () => {
  await load(`${serverOfRates()}&by=config.gone`);
  await waitFor(() => expect(mean("gone not set")).toBe("4.33± 2.52"));
  expect(screen.getByRole("combobox", { name: "Group by" })).toHaveValue("config.gone");
});

it("has one legend, and one table of results and of the settings that differ", async () => {
  showAll();
  await load(serverOfRates());
  const table = await screen.findByRole("group", { name: "Results and settings of the runs" });
  await waitFor(() => expect(table.querySelector('[data-fact="loss"] [data-run="rate-a"]')).toHaveTextContent("22 … 4"));
  expect([...table.querySelectorAll("[data-path]")].map((row) => row.getAttribute("data-path"))).toEqual(["rate", "seed"]);
  expect(table.querySelector('[data-path="rate"]')).toHaveTextContent("rate11differs: 2");
  // Charts have no legends of their own.
  expect(screen.queryByRole("group", { name: "Lines" })).toBeNull();
  fireEvent.click(screen.getByRole("button", { name: "Show rate-b" }), { shiftKey: true });
  await waitFor(() => expect(here()).toContain("hide=rate-a%2Crate-c"));
  fireEvent.click(screen.getByRole("button", { name: "Remove rate-b" }));
  await waitFor(() => expect(here()).toContain("runs=rate-a%2Crate-c"));
});
