import { fireEvent, screen, waitFor } from "@testing-library/react";
import { expect, it } from "vitest";
import type { Choice } from "@/api/metricChoices";
import { fill, here, load, press, serverFor } from "@/testing/page";
import { addRun, runOf } from "@/testing/runs";

/** A server with two outside runs that measure some metrics; it keeps choices of metrics. */
function serverWith(...names: string[]) {
  const at = new Date().toISOString();
  const keys = names.map((name) => ({ name, step: 4, value: 4, at }));
  const server = serverFor();
  const choices: Choice[] = [];
  for (const run of ["rewarded-a", "rewarded-b"]) addRun(server, runOf(run));
  server
    .on("GET", "/api/v1/runs/{run}/metrics/names", { results: names, next: null })
    .on("GET", "/api/v1/runs/{run}/metrics/keys", ({ query }) => {
      const named = query.get("names")?.split(",");
      const found = keys.filter(({ name }) => (named ? named.includes(name) : name.includes(query.get("search") ?? "")));
      return { results: found, next: null, total: found.length };
    })
    .on("GET", "/api/v1/metric-choices", () => ({ results: choices, next: null }))
    .on("PUT", "/api/v1/metric-choices", ({ body }) => {
      choices.length = 0;
      if (body.view) choices.push({ ...body, changed_at: at } as Choice);
      return { results: choices, next: null };
    });
  return { server, chosen: () => choices.map(({ view }) => view.metrics) };
}

const shown = () => [...document.querySelectorAll<HTMLElement>("[data-metric]")].map(({ dataset }) => dataset.metric);

it("shows the reward before the metrics in alphabetical order", async () => {
  serverWith("alpha", "reward_mean", "zeta");
  await load("/runs/rewarded-a/metrics");
  await waitFor(() => expect(shown()).toEqual(["reward_mean", "alpha", "zeta"]));
});

it("remembers pinned metrics for all runs of a kind, unless a link has its own", async () => {
  const { server, chosen } = serverWith("alpha", "reward_mean", "zeta");
  const stored = (times: number) => waitFor(() => expect(server.bodies("PUT", "/api/v1/metric-choices")).toHaveLength(times));
  await load("/runs/rewarded-a/metrics");
  await press("Pin zeta");
  await stored(1);
  expect(shown()[0]).toBe("zeta");

  // Another page load, as in another browser: the choice is on the server.
  localStorage.clear();
  await load("/runs/rewarded-b/metrics");
  await waitFor(() => expect(shown()[0]).toBe("zeta"));
  expect(here()).toBe("/runs/rewarded-b/metrics?pin=zeta");
  // A link with metrics of its own takes precedence and changes nothing.
  await load("/runs/rewarded-b/metrics?pin=alpha");
  await waitFor(() => expect(shown()[0]).toBe("alpha"));
  expect(chosen()).toEqual([["zeta"]]);
  fireEvent.click(screen.getByLabelText("Since start"));
  await stored(2);
  expect(chosen()).toEqual([["alpha"]]);

  await press("Reset to defaults");
  await stored(3);
  await waitFor(() => expect(here()).toBe("/runs/rewarded-b/metrics"));
  expect(shown()[0]).toBe("reward_mean");
  expect(chosen()).toEqual([]);
  await load("/runs/rewarded-b/metrics");
  await waitFor(() => expect(shown()[0]).toBe("reward_mean"));
});

it("shows a pinned metric before those of every search", async () => {
  serverWith("entropy", "kl", "value_loss");
  await load("/runs/rewarded-a/metrics");
  await press("Pin value_loss");
  await waitFor(() => expect(here()).toContain("pin=value_loss"));
  expect(shown()[0]).toBe("value_loss");
  fill(screen.getByLabelText("Find metrics"), "entropy");
  await waitFor(() => expect(shown()).toEqual(["value_loss", "entropy"]));
  await press("Pin value_loss");
  await waitFor(() => expect(shown()).toEqual(["entropy"]));
});
