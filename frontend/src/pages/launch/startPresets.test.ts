import { expect, it } from "vitest";
import type { SavedPreset } from "@/pages/launch/api";
import { choicesOf, startsOf } from "./startPresets";

const saved = (name: string, description = "") => ({ name, description, config: { seed: 1 }, access: "open" }) as unknown as SavedPreset;
const builtIn = [{ name: "cartpole", title: "CartPole", config: {} }];

it("lists saved presets below built-in ones", () => {
  expect(choicesOf(startsOf(builtIn, [saved("four", "four workers"), saved("bare")]))).toEqual([
    { group: "Built in", items: [{ value: "cartpole", label: "CartPole" }] },
    {
      group: "Saved",
      items: [
        { value: "four", label: "four: four workers" },
        { value: "bare", label: "bare" },
      ],
    },
  ]);
});
it("omits empty groups", () => {
  expect(choicesOf(startsOf(builtIn, [])).map(({ group }) => group)).toEqual(["Built in"]);
});
