import { expect, it } from "vitest";
import type { Command } from "./commands";
import { fitOf } from "./fuzzy";
import { pieces, ranked } from "./rank";

const command = (title: string, more: Partial<Command> = {}): Command => ({ id: title, group: "Go to", title, act: () => {}, ...more });
const titles = (typed: string, all: string[], recent: string[] = []) =>
  ranked(
    all.map((title) => command(title)),
    typed,
    recent,
  ).map((shown) => shown.command.title);

it("matches letters in order", () => {
  expect(fitOf("crtp", "cartpole-live")?.at).toEqual([0, 2, 3, 4]);
  expect(fitOf("crtx", "cartpole-live")).toBeNull();
  expect(fitOf("olc", "cartpole")).toBeNull();
});

it("is case-insensitive and matches each word", () => {
  expect(fitOf("LIVE cart", "Cartpole-live")?.at).toEqual([0, 1, 2, 3, 9, 10, 11, 12]);
  expect(fitOf("live dog", "cartpole-live")).toBeNull();
});

it("prefers adjacent letters and starts of words", () => {
  expect(titles("run", ["Audit the round number", "Runs"])).toEqual(["Runs", "Audit the round number"]);
  expect(titles("am", ["Team", "All matching"])).toEqual(["All matching", "Team"]);
  expect(titles("que", ["Queue", "Queue and batches"])).toEqual(["Queue", "Queue and batches"]);
});

it("prefers the start of a title to later words", () => {
  expect(titles("kill", ["to-be-killed-8e33a8", "Kill by-palette-6984e2"])).toEqual(["Kill by-palette-6984e2", "to-be-killed-8e33a8"]);
});

it("finds the best of several positions", () => {
  expect(fitOf("pole", "p-cartpole")?.at).toEqual([6, 7, 8, 9]);
});

it("lists recent commands first without text", () => {
  const shown = ranked([command("Runs"), command("Audit"), command("Tokens")], " ", ["Tokens", "gone"]);
  expect(shown.map(({ command: { title }, heading }) => [heading, title])).toEqual([
    ["Recent", "Tokens"],
    ["Go to", "Runs"],
    ["Go to", "Audit"],
  ]);
});

it("prefers recent entries in close matches only", () => {
  expect(titles("seed", ["seed-a", "seed-b"], ["seed-b"])).toEqual(["seed-b", "seed-a"]);
  expect(titles("runs", ["r-u-n-s", "Runs"], ["r-u-n-s"])).toEqual(["Runs", "r-u-n-s"]);
});

it("ranks matches in additional terms below titles", () => {
  const dark = command("Theme: dark", { words: "night mode" });
  expect(ranked([dark, command("Nightly run")], "night", []).map(({ command: { title } }) => title)).toEqual([
    "Nightly run",
    "Theme: dark",
  ]);
});

it("splits a title at highlights", () => {
  expect(pieces("Queue", [0, 1, 4])).toEqual([
    { text: "Qu", isMarked: true },
    { text: "eu", isMarked: false },
    { text: "e", isMarked: true },
  ]);
});
