import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import type { UserEvent } from "@testing-library/user-event";
import { expect, it } from "vitest";
import { dialog, fill, heading, here, load, one, serverFor } from "@/testing/page";
import { addRun, listOf, runOf } from "@/testing/runs";

const PLACES = ["/", "/runs", "/settings"];

function serverWith(role: "admin" | "viewer", ...runs: ReturnType<typeof runOf>[]) {
  const server = serverFor(role)
    .on("GET", "/api/v1/runs", ({ query }) => listOf(runs, query.get("q") ?? ""))
    .on("GET", "/api/v1/projects", { results: [], next: null })
    .tell("runs", { active: [], resting: [] });
  for (const run of runs) addRun(server, run);
  return server;
}

async function visit(place: string) {
  const user = await load(place);
  await screen.findByRole("heading", { level: 1 });
  return user;
}

async function opened(user: UserEvent) {
  await user.keyboard("{Control>}k{/Control}");
  const box = await screen.findByRole("combobox", { name: /^Search pages/ });
  await waitFor(() => expect(box).toHaveFocus());
  return box;
}

/** Replace the text of the box. */
async function type(text: string) {
  fill(await screen.findByRole("combobox", { name: /^Search pages/ }), text);
}

/** Wait until the box announces an option with these words. */
async function chosen(words: string) {
  await waitFor(() => {
    const box = screen.getByRole("combobox", { name: /^Search pages/ });
    const active = document.getElementById(box.getAttribute("aria-activedescendant") ?? "");
    expect(active).toHaveTextContent(words);
  });
}

const box = () => screen.queryByRole("combobox", { name: /^Search pages/ });

it("opens the result of a search that ends after Enter was pressed", async () => {
  serverWith("admin", runOf("seed-reverse-lessons"), runOf("another"));
  const user = await visit("/");
  await opened(user);
  await user.keyboard("anothe{Enter}");
  expect(await heading("another")).toBeVisible();

  fireEvent.click(screen.getByRole("button", { name: /^Search or command/ }));
  await user.keyboard("seed-rev{Enter}");
  expect(await heading("seed-reverse-lessons")).toBeVisible();
});

it("finds a run and its tabs by a part of their names, and lists the run as recent", async () => {
  serverWith("admin", runOf("seed-reverse-lessons", { kind: "language" }));
  const user = await visit("/runs");
  await one("[data-filter]");
  await user.keyboard("/");
  await opened(user);
  await user.keyboard("{Escape}");
  await waitFor(() => expect(document.querySelector("[data-filter]")).toHaveFocus());

  await opened(user);
  await user.keyboard("lesrev");
  await waitFor(() => expect(screen.queryAllByRole("option")).toHaveLength(0));
  await type("reverse-les");
  await chosen("seed-reverse-lessons");
  await user.keyboard("{Enter}");
  expect(await heading("seed-reverse-lessons")).toBeVisible();

  await opened(user);
  await user.keyboard("curr");
  await chosen("Curriculum");
  await user.keyboard("{Enter}");
  await waitFor(() => expect(here()).toBe("/runs/seed-reverse-lessons/curriculum"));

  await opened(user);
  expect(await screen.findByRole("group", { name: "Runs" })).toHaveTextContent("seed-reverse-lessons");
  await user.keyboard("{Escape}");
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
});

it("confirms a command that changes a run, and restores the focus", async () => {
  const server = serverWith("admin", runOf("by-palette"));
  const user = await visit("/runs/by-palette");
  const link = await screen.findByRole("link", { name: "Charts" });
  link.focus();
  await opened(user);
  await user.keyboard("kill");
  await chosen("Kill by-palette");
  await user.keyboard("{Enter}");
  await dialog("Kill by-palette?");
  await user.keyboard("{Control>}k{/Control}"); // never above a dialog
  expect(box()).toBeNull();
  await user.keyboard("{Escape}");
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  await waitFor(() => expect(link).toHaveFocus());
  expect(server.asked.filter(({ verb }) => verb !== "GET")).toEqual([]);
});

it.each(PLACES)("opens another page from %s", async (place) => {
  serverWith("admin");
  const user = await visit(place);
  await opened(user);
  await type("launch");
  await chosen("Launch");
  await user.keyboard("{Enter}");
  await waitFor(() => expect(here()).toBe("/runs/new"));
});

it("names a search without a match", async () => {
  serverWith("admin");
  const user = await visit("/settings");
  await opened(user);
  await user.keyboard("no such thing");
  const palette = within(await screen.findByRole("dialog"));
  expect(await palette.findByText("No matches for “no such thing”.")).toBeVisible();
});
