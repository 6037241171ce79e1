import { fireEvent, screen, waitFor } from "@testing-library/react";
import { expect, it } from "vitest";
import { fill, here, load, press, serverFor } from "@/testing/page";
import { addRun, runOf } from "@/testing/runs";
import { Refusal } from "@/testing/server";
import { showAll } from "@/testing/viewport";

/** A server with two outside runs that measure some metrics. */
function serverWith(...names: string[]) {
  const at = new Date().toISOString();
  const keys = names.map((name) => ({ name, step: 4, value: 4, at }));
  const server = serverFor();
  for (const run of ["rewarded-a", "rewarded-b"]) addRun(server, runOf(run));
  return server
    .on("GET", "/api/v1/runs/{run}/metrics/names", { results: names, next: null })
    .on("GET", "/api/v1/runs/{run}/metrics/keys", ({ query }) => {
      const named = query.get("names")?.split(",");
      const found = keys.filter(({ name }) => (named ? named.includes(name) : name.includes(query.get("search") ?? "")));
      return { results: found, next: null, total: found.length };
    });
}

/** Choose a panel as a user who types it. */
async function choose(text: string): Promise<void> {
  const field = await screen.findByRole("combobox", { name: "Panels" });
  fill(field, text);
  fireEvent.keyDown(field, { key: "Enter", code: "Enter" });
}

/** Remove the last chosen panel. */
const removeLast = () => fireEvent.keyDown(screen.getByRole("combobox", { name: "Panels" }), { key: "Backspace", code: "Backspace" });

const shown = () => [...document.querySelectorAll<HTMLElement>("[data-panel]")].map(({ dataset }) => dataset.panel);

it("shows the reward before the metrics in alphabetical order", async () => {
  serverWith("alpha", "reward_mean", "zeta");
  await load("/runs/rewarded-a/metrics");
  await waitFor(() => expect(shown()).toEqual(["reward_mean", "alpha", "zeta"]));
});

it("remembers chosen metrics for all runs of a kind, unless a link has its own", async () => {
  serverWith("alpha", "reward_mean", "zeta");
  await load("/runs/rewarded-a/metrics");
  await choose("zeta");
  await waitFor(() => expect(shown()[0]).toBe("zeta"));

  await load("/runs/rewarded-b/metrics");
  await waitFor(() => expect(shown()[0]).toBe("zeta"));
  expect(here()).toBe(`/runs/rewarded-b/metrics?charts=${encodeURIComponent('["zeta"]')}`);
  // A link with metrics of its own takes precedence, until a metric or an axis is changed.
  await load("/runs/rewarded-b/metrics?pin=alpha");
  await waitFor(() => expect(shown()[0]).toBe("alpha"));
  await load("/runs/rewarded-b/metrics");
  await waitFor(() => expect(shown()[0]).toBe("zeta"));
  await load("/runs/rewarded-b/metrics?pin=alpha");
  await waitFor(() => expect(shown()[0]).toBe("alpha"));
  fireEvent.click(screen.getByLabelText("Since start"));
  await load("/runs/rewarded-b/metrics");
  await waitFor(() => expect(shown()[0]).toBe("alpha"));

  await press("Reset to defaults");
  await waitFor(() => expect(here()).toBe("/runs/rewarded-b/metrics"));
  expect(shown()[0]).toBe("reward_mean");
  await load("/runs/rewarded-b/metrics");
  await waitFor(() => expect(shown()[0]).toBe("reward_mean"));
});

it("shows the defaults for a stored choice that is not readable", async () => {
  localStorage.setItem("rolldeck-view-charts-outside", "{broken");
  serverWith("alpha", "reward_mean");
  await load("/runs/rewarded-a/metrics");
  await waitFor(() => expect(shown()).toEqual(["reward_mean", "alpha"]));
});

it("shows a chosen metric before those of every search", async () => {
  serverWith("entropy", "kl", "value_loss");
  await load("/runs/rewarded-a/metrics");
  await choose("value_loss");
  await waitFor(() => expect(here()).toContain("value_loss"));
  expect(shown()[0]).toBe("value_loss");
  fill(screen.getByRole("combobox", { name: "Find metrics" }), "entropy");
  await waitFor(() => expect(shown()).toEqual(["value_loss", "entropy"]));
  removeLast();
  await waitFor(() => expect(shown()).toEqual(["entropy"]));
});

it("adds a panel of an expression of metrics", async () => {
  serverWith("kl", "loss");
  await load("/runs/rewarded-a/metrics");
  await choose("= loss / kl");
  expect(await screen.findByRole("region", { name: "= loss / kl" })).toBeVisible();
  removeLast();
  await waitFor(() => expect(screen.queryByRole("region", { name: "= loss / kl" })).toBeNull());
});

it("opens links with other runs as a comparison", async () => {
  serverWith("kl", "loss");
  await load("/runs/rewarded-a/metrics?with=rewarded-b&smooth=0.5");
  await waitFor(() => expect(here()).toMatch(/^\/compare\?/));
  expect(here()).toContain("runs=rewarded-a%2Crewarded-b");
  expect(here()).toContain("smooth=0.5");
});

it("shows the error of a panel in an address", async () => {
  serverWith("kl", "loss");
  await load(`/runs/rewarded-a/metrics?panels=${encodeURIComponent('["= loss /"]')}`);
  expect(await screen.findByText("Character 9: expected a metric, a number or “(”, found the end.")).toBeVisible();
});

it("keeps all other charts when the lines of a panel cannot be read", async () => {
  showAll();
  const server = serverWith("kl", "loss");
  const lines = { x: "step" as const, lines: [] };
  const broken = new Refusal({ status: 500, code: "internal", detail: "lines are broken" });
  server.on("GET", "/api/v1/metrics/lines", ({ query }) => (query.get("names")?.includes("odd") ? broken : lines));
  await load(`/runs/rewarded-a/metrics?panels=${encodeURIComponent('["= loss / odd"]')}`);
  const panel = await screen.findByRole("region", { name: "= loss / odd" });
  await waitFor(() => expect(panel).toHaveTextContent("lines are broken"), { timeout: 10_000 });
  expect(shown()).toEqual(["= loss / odd", "kl", "loss"]);
});
