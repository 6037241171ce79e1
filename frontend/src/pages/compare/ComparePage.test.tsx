import { fireEvent, screen, waitFor } from "@testing-library/react";
import { expect, it, vi } from "vitest";
import type { MetricLine } from "@/api/types";
import { here, load, serverFor } from "@/testing/page";
import { addRun, runOf } from "@/testing/runs";

/** A server with outside runs; `total` is how many metrics a run has, of which the list returns the named ones. */
function serverWith(names: string[], total: number, others: string[] = []) {
  const at = new Date().toISOString();
  const server = serverFor();
  for (const run of ["seen-a", "seen-b"]) addRun(server, runOf(run));
  server
    .on("GET", "/api/v1/runs/{run}/metrics/keys", ({ query }) => {
      const asked = query.get("names")?.split(",");
      const found = asked ? [...names, ...others].filter((name) => asked.includes(name)) : names;
      return { results: found.map((name) => ({ name, step: 4, value: 4, at })), next: null, total: asked ? found.length : total };
    })
    .on("GET", "/api/v1/runs/{run}/batches", { results: [], next: null })
    .on("GET", "/api/v1/prompts", { results: [], next: null })
    .on("GET", "/api/v1/metrics/lines", { x: "step", lines: [] });
  return server;
}

/** A line of exact samples at steps 0, 1, 2 …. */
const lineOf = (run: string, name: string, last: (number | null)[]): MetricLine => ({
  ...{ run, name, samples: last.length, nans: 0, infinities: 0, bucket: 0, is_exact: true },
  ...{ x: last.map((_, i) => i), last, x_first: [], min: [], max: [], mean: [], count: [], gaps: [] },
});

/** A server with three runs of two learning rates. */
function serverOfRates() {
  const server = serverWith(["loss"], 1);
  const rates = { "rate-a": 1, "rate-b": 1, "rate-c": 2 };
  const last = { "rate-a": [4, 2], "rate-b": [4, 4], "rate-c": [9, 7] };
  for (const [name, rate] of Object.entries(rates)) addRun(server, runOf(name, { config: { rate, seed: name } }));
  server.on("GET", "/api/v1/metrics/lines", ({ query }) => ({
    x: "step" as const,
    lines: Object.entries(last).flatMap(([run, values]) => (query.get("names")?.includes("loss") ? [lineOf(run, "loss", values)] : [])),
  }));
  return "/compare?runs=rate-a,rate-b,rate-c";
}

const mean = (group: string) => document.querySelector(`[data-group="${group}"] [data-mean="loss"]`)?.textContent;

const shown = () => [...document.querySelectorAll<HTMLElement>("[data-metric]")].map(({ dataset }) => dataset.metric);

it("shows a return first that is not among the loaded names", async () => {
  serverWith(["kl", "loss"], 700, ["rolldeck/reward/mean"]);
  await load("/compare?runs=seen-a,seen-b");
  await waitFor(() => expect(shown()).toEqual(["rolldeck/reward/mean", "kl", "loss"]));
});

it("shows no chart of a return that no run has", async () => {
  const server = serverWith(["kl", "loss"], 700);
  await load("/compare?runs=seen-a,seen-b");
  await waitFor(() => expect(shown()).toEqual(["kl", "loss"]));
  const byName = server.asked.filter(({ path, query }) => path.endsWith("/metrics/keys") && query.has("names"));
  expect(byName.map(({ path }) => path)).toEqual(["/api/v1/runs/seen-a/metrics/keys", "/api/v1/runs/seen-b/metrics/keys"]);
});

it("requests no further names of runs whose names are all loaded", async () => {
  const server = serverWith(["kl", "loss"], 2);
  await load("/compare?runs=seen-a,seen-b");
  await waitFor(() => expect(shown()).toEqual(["kl", "loss"]));
  expect(server.asked.some(({ path, query }) => path.endsWith("/metrics/keys") && query.has("names"))).toBe(false);
});

/** Charts are mounted only on screen; in jsdom nothing is. */
function showAll() {
  class Observer {
    constructor(private readonly tell: (entries: { isIntersecting: boolean }[]) => void) {}
    observe = () => this.tell([{ isIntersecting: true }]);
    disconnect = () => {};
    unobserve = () => {};
  }
  vi.stubGlobal("IntersectionObserver", Observer);
}

it("shows mean and spread of runs with equal settings, in chart and table", async () => {
  showAll();
  await load(serverOfRates());
  await waitFor(() => expect(shown()).toEqual(["loss"]));
  fireEvent.click(screen.getByRole("combobox", { name: "Group by" }));
  fireEvent.click(await screen.findByText("rate", { selector: "span" }));
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
