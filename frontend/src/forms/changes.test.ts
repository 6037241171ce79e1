import { expect, it } from "vitest";
import { changesOf, cliCommand, leavesOf, overlayOf, valueText } from "@/forms/launch";

const parent = { fleet: { num_workers: 2, resources: { a: 1 } }, seed: 0, hidden: [64, 64], language: null };

it("finds added, removed and changed values", () => {
  const child = { fleet: { num_workers: 4, resources: { b: 1 } }, seed: 0, hidden: [64], language: null };
  expect(changesOf(parent, child).map(({ path, kind }) => [path, kind])).toEqual([
    ["fleet.num_workers", "changed"],
    ["fleet.resources.a", "removed"],
    ["fleet.resources.b", "added"],
    ["hidden", "changed"],
  ]);
  expect(changesOf(parent, structuredClone(parent))).toEqual([]);
});
it("builds an overlay unless a removal is needed", () => {
  const child = { ...parent, seed: 7, fleet: { ...parent.fleet, num_workers: 4 } };
  expect(overlayOf(changesOf(parent, child))).toEqual({ fleet: { num_workers: 4 }, seed: 7 });
  expect(overlayOf(changesOf(parent, { ...parent, fleet: { num_workers: 2, resources: {} } }))).toBeNull();
});
it("lists fields by path", () => {
  expect(leavesOf({ spec: "task:sort", sampling: { top_k: 0, stop: [] }, kwargs: {} })).toEqual([
    ["spec", "task:sort"],
    ["sampling.top_k", 0],
    ["sampling.stop", []],
    ["kwargs", {}],
  ]);
  expect([leavesOf([1]), leavesOf({}), leavesOf(null)]).toEqual([null, null, null]);
});
it("formats values on one line", () => {
  expect([valueText("x"), valueText({ a: 1 }), valueText(undefined)]).toEqual(["x", '{"a":1}', "–"]);
});
it("quotes commands for the shell", () => {
  const config = { environment: { kwargs: { name: "it's" } } };
  expect(cliCommand({ name: "one", preset: "cartpole", config })).toBe(
    `rolldeck run create --name one --preset cartpole --set 'environment.kwargs={"name":"it'\\''s"}'`,
  );
  expect(cliCommand({ name: "", preset: "", config: {} })).toBe("rolldeck run create --name NAME");
});
