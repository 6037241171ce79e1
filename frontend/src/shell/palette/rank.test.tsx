import { expect, it } from "vitest";
import type { Command } from "@/shell/palette/commands";
import { ranked } from "@/shell/palette/Palette";

const command = (title: string, more: Partial<Command> = {}): Command => ({ id: title, group: "Go to", title, act: () => {}, ...more });
const titles = (typed: string, ...commands: Command[]) => ranked(commands, typed).map(({ title }) => title);

it("lists all commands by group while nothing is typed", () => {
  expect(titles(" ", command("pole", { group: "Runs" }), command("Pause pole", { group: "This page" }), command("Runs"))).toEqual([
    "Pause pole",
    "Runs",
    "pole",
  ]);
});

it("needs every word, in any order and letter case, in the title or the further words", () => {
  expect(titles("LIVE cart", command("Cartpole-live"), command("cartpole"))).toEqual(["Cartpole-live"]);
  expect(titles("secret", command("Create token…", { words: "mint secret key" }), command("Runs"))).toEqual(["Create token…"]);
});

it("puts titles that begin with the word first, then those with a word that does, then the shorter", () => {
  const runs = command("to-be-killed"); // "kill" begins a part of it
  expect(titles("kill", command("painkiller"), runs, command("Kill pole now"), command("Kill pole"))).toEqual([
    "Kill pole",
    "Kill pole now",
    "to-be-killed",
    "painkiller",
  ]);
});
