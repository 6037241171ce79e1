import { expect, it } from "vitest";
import { lineStyleAt } from "./lineStyles";

it("gives twenty lines distinct styles", () => {
  const looks = [...Array(20).keys()].map(lineStyleAt);
  expect(new Set(looks.map((look) => JSON.stringify(look))).size).toBe(20);
  const plain = looks.map(({ dash, marker }) => JSON.stringify([dash, marker]));
  expect(new Set(plain).size).toBe(20);
});
