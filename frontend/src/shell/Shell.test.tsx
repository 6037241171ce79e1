import { fireEvent, screen, waitFor } from "@testing-library/react";
import { expect, it } from "vitest";
import { summaryOf } from "@/testing/alerts";
import { dialog, fill, heading, here, load, one, press, reload, serverFor } from "@/testing/page";
import { addRun, runOf } from "@/testing/runs";
import { Refusal } from "@/testing/server";

const root = document.documentElement;

it.each([
  ["/", "Runs · Rolldeck"],
  ["/runs/new", "Launch · Rolldeck"],
  ["/settings", "Settings · Rolldeck"],
  ["/runs/pole/queue", "Queue · pole · Rolldeck"],
])("names %s in the browser's tab, with the number of errors and their icon", async (place, title) => {
  document.head.innerHTML = '<link rel="icon" href="/mark.svg" />';
  const server = serverFor().tell("alerts", { alerts: summaryOf({ errors: 2 }) });
  addRun(server, runOf("pole"));
  await load(place);
  await waitFor(() => expect(document.title).toBe(`(2) ${title}`));
  await waitFor(() => expect(document.querySelector("link[rel=icon]")).toHaveAttribute("href", "/mark-alert.svg"));
});

it("opens the tabs of the last run with shortcuts", async () => {
  addRun(serverFor(), runOf("pole", { kind: "fleet" }));
  const user = await load("/runs/pole");
  await screen.findByRole("link", { name: "Overview" });
  for (const [key, tab] of Object.entries({ q: "queue", f: "fleet", t: "trajectories", w: "weights" })) {
    await user.keyboard(`g${key}`);
    await waitFor(() => expect(here()).toBe(`/runs/pole/${tab}`));
  }
  const again = await load("/tokens");
  await heading("API & tokens");
  await again.keyboard("gf");
  await waitFor(() => expect(here()).toBe("/runs/pole/fleet"));
});

it("has shortcuts for help, pages and the filter", async () => {
  serverFor();
  const user = await load("/");
  await heading("Runs", 1);
  await user.keyboard("?");
  await dialog(/^Keyboard/);
  await user.keyboard("{Escape}");
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  await user.keyboard("gn");
  expect(await heading("Launch a run")).toBeVisible();
  await user.keyboard("gr");
  expect(await heading("Runs", 1)).toBeVisible();
  await user.keyboard("/");
  expect(screen.getByLabelText("Filter runs by name, state or environment")).toHaveFocus();
});

it.each(["Light", "Dark"])("stores the theme %s", async (theme) => {
  serverFor();
  await load("/settings");
  await press("Menu of ada");
  fireEvent.click(await screen.findByRole("menuitemradio", { name: theme }));
  await waitFor(() => expect(root).toHaveAttribute("data-mantine-color-scheme", theme.toLowerCase()));
  await reload();
  await heading("Settings", 1);
  expect(root).toHaveAttribute("data-mantine-color-scheme", theme.toLowerCase());
});

it.each([
  ["/runs/no-such-run", "No run named no-such-run"],
  ["/runs/pole/no-such-tab", "Page not found"],
  ["/runs/pole/groups/999999999", "Group unavailable"],
  ["/runs/pole/groups/abc", "Group unavailable"],
  ["/runs/pole/fragments/1.5", "Fragment unavailable"],
  ["/runs/pole/curriculum", "This run has no lessons"],
  ["/alerts?alert=zero", "Alerts"],
  ["/compare?runs=,,&from=a", "No runs selected"],
])("shows a page with one heading at the broken address %s", async (place, words) => {
  const missing = new Refusal({ status: 404, code: "not_found", detail: "not found" });
  const server = serverFor()
    .refuse("run:no-such-run", "not_found", "run 'no-such-run' not found")
    .on("GET", "/api/v1/runs/{run}/groups/{group}", missing)
    .on("GET", "/api/v1/runs/{run}/fragments/{fragment}", missing);
  addRun(server, runOf("pole", { kind: "fleet" }));
  server.tell("run:pole", { curriculum: null });
  await load(place);
  expect((await screen.findAllByText(words))[0]).toBeVisible();
  expect(screen.getAllByRole("heading", { level: 1 })).toHaveLength(1);
});

it("keeps a draft when the session ends, and discards it when the dialog is cancelled", async () => {
  const server = serverFor();
  addRun(server, runOf("half-explained"));
  server.on("POST", "/api/v1/session", { authenticated: true, username: "ada", role: "admin" });
  await load("/runs/half-explained");
  await press("More actions");
  fireEvent.click(await one("[data-verb=drain]"));
  fill((await dialog("Drain half-explained?")).getByLabelText("Reason"), "the paper is out, so");
  server.endSession();
  fill(await screen.findByLabelText("User name"), "ada");
  expect(here()).toBe("/login?next=%2Fruns%2Fhalf-explained");
  fill(screen.getByLabelText("Password"), "secret");
  await press("Sign in");

  await press("More actions");
  fireEvent.click(await one("[data-verb=drain]"));
  const asked = await dialog("Drain half-explained?");
  expect(asked.getByLabelText("Reason")).toHaveValue("the paper is out, so");
  fireEvent.click(asked.getByRole("button", { name: "Cancel" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  await press("More actions");
  fireEvent.click(await one("[data-verb=drain]"));
  expect((await dialog("Drain half-explained?")).getByLabelText("Reason")).toHaveValue("");
  await one("[role=dialog]");
});
