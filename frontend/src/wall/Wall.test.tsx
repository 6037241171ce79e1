import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import { beforeEach, expect, it, vi } from "vitest";
import type { MetricLine } from "@/api/types";
import { lineOf } from "@/testing/metrics";
import { serverFor } from "@/testing/page";
import { Refusal } from "@/testing/server";
import { showAll } from "@/testing/viewport";
import type { WallView } from "@/wall/Wall";
import { type PanelSpec, panelOf } from "./panels";
import { presetsOf } from "./presets";

beforeEach(showAll);

const VIEW: WallView = {
  runs: ["a"],
  axis: "step",
  xLabel: "train step",
  points: 600,
  smooth: 0,
  isLive: false,
  sync: "test",
  onZoom: () => {},
};

/** A wall of panels for lines of the server; requests with a metric named `odd` fail. */
async function show(panels: PanelSpec[], lines: MetricLine[], more: Partial<WallView> = {}, looks?: Record<string, string>) {
  const broken = new Refusal({ status: 500, code: "internal", detail: "lines are broken" });
  const server = serverFor()
    .on("GET", "/api/v1/runs/{run}/metrics/names", { results: ["kl", "layer/1", "layer/2", "loss", "tokens"], next: null })
    .on("GET", "/api/v1/metrics/lines", ({ query }) => {
      const names = query.get("names")?.split(",") ?? [];
      return names.includes("odd") ? broken : { x: "step", lines: lines.filter(({ name }) => names.includes(name)) };
    });
  // The client of the API takes `fetch` when it is loaded.
  vi.resetModules();
  const [{ Wall }, { SharingContext }] = await Promise.all([import("@/wall/Wall"), import("@/share/focus")]);
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  render(
    <QueryClientProvider client={queries}>
      <MantineProvider env="test">
        <SharingContext value={{ looks, setLook: () => {}, copy: () => {} }}>
          <Wall panels={panels} view={{ ...VIEW, ...more }} />
        </SharingContext>
      </MantineProvider>
    </QueryClientProvider>,
  );
  const asked = () => server.asked.flatMap(({ query, path }) => (path.endsWith("/lines") ? [query.get("names")] : []));
  return { asked };
}

const panel = (name: string) => within(screen.getByRole("region", { name }));
const chart = (name: string) => panel(name).getByRole("img");

it("shows that a metric has no samples", async () => {
  await show([panelOf("loss")], [lineOf("a", "loss", [], [])]);
  expect(await screen.findByText("No samples in this range.")).toBeVisible();
  expect(screen.getByText("not recorded by a")).toBeVisible();
});

it("draws a single sample, with its value", async () => {
  await show([panelOf("loss")], [lineOf("a", "loss", [7], [0.5])]);
  await waitFor(() => expect(chart("loss")).toHaveAttribute("data-points", "1"));
  expect(panel("loss").getByTitle("newest value")).toHaveTextContent("0.5");
});

it("counts values that are no numbers, and draws none of only such values", async () => {
  await show([panelOf("loss")], [lineOf("a", "loss", [0, 1], [null, null], { nans: 2 })]);
  expect(await screen.findByText("▲ 2 NaN")).toBeVisible();
  expect(screen.getByText("No samples in this range.")).toBeVisible();
});

it("shows the error of one panel in this panel, and reads it again on demand", async () => {
  const { asked } = await show([panelOf("= loss / odd"), panelOf("loss")], [lineOf("a", "loss", [1], [2])]);
  expect(await panel("= loss / odd").findByText("lines are broken")).toBeVisible();
  await waitFor(() => expect(chart("loss")).toHaveAttribute("data-points", "1"));
  const before = asked().length;
  fireEvent.click(screen.getByRole("button", { name: "Retry" }));
  await waitFor(() => expect(asked()).toHaveLength(before + 1));
});

it("shows the problem of an invalid panel without a request", async () => {
  const { asked } = await show([panelOf("/(/"), panelOf("= loss /")], []);
  expect(panel("/(/").getByText("Invalid expression.")).toBeVisible();
  expect(panel("= loss /").getByText(/^Character 9/)).toBeVisible();
  expect(asked()).toEqual([]);
});

it("draws twenty runs without a legend in each panel, and hides a run in all panels", async () => {
  const runs = Array.from({ length: 20 }, (_, i) => `run-${i}`);
  const lines = ["kl", "loss"].flatMap((name) => runs.map((run, i) => lineOf(run, name, [0, 1], [i, i])));
  await show([panelOf("kl"), panelOf("loss")], lines, { runs, hidden: { value: ["run-3"], change: () => {} } });
  await waitFor(() => expect(chart("loss")).toHaveAttribute("data-points", "2"));
  for (const name of ["kl", "loss"]) {
    expect(panel(name).queryByRole("group", { name: "Lines" })).toBeNull();
    const points = panel(name)
      .getByRole("slider", { name: `Points of ${name}` })
      .getAttribute("aria-valuetext");
    expect([points?.includes("run-2 2"), points?.includes("run-3 3")]).toEqual([true, false]);
  }
});

it("requests panels of a screen together, and those with a metric as x axis alone", async () => {
  const lines = [lineOf("a", "loss", [0, 10], [3, 1]), lineOf("a", "tokens", [0, 10], [0, 500]), lineOf("a", "kl", [1], [1])];
  const { asked } = await show([panelOf("kl"), panelOf("loss"), panelOf("layer/1")], lines, {}, { loss: "x:tokens" });
  await waitFor(() => expect(chart("loss")).toHaveAttribute("data-points", "2"));
  expect(asked().sort()).toEqual(["kl,layer/1", "loss,tokens"]);
  expect(panel("loss").getByRole("slider", { name: "Points of loss" })).toHaveAttribute("aria-valuetext", "tokens 500: a 1");
});

it("draws all metrics that match a regular expression", async () => {
  const lines = ["layer/1", "layer/2"].map((name) => lineOf("a", name, [0], [1]));
  await show([panelOf("/^layer/")], lines.concat(lineOf("a", "loss", [0], [1])));
  expect(await screen.findByText("2 metrics match")).toBeVisible();
  expect(await panel("/^layer/").findByRole("button", { name: /^layer\/2/ })).toBeVisible();
});

it("draws the presets of a run in one request, each with its text without samples", async () => {
  const { asked } = await show([...presetsOf("outside")], [lineOf("a", "rolldeck/queue/depth", [0, 10], [2, 4])]);
  expect(await panel("Queue depth").findByTitle("newest value")).toHaveTextContent("4");
  expect(panel("Staleness").getByText("No batches leased yet.")).toBeVisible();
  expect(asked()).toHaveLength(1);
});
