import { expect, it } from "vitest";
import { parsed, withView } from "@/runs/savedViews";

it("saves views by name, replacing duplicates", () => {
  const views = withView(withView([], " mine ", { q: "owner:ada" }), "failed", { q: "is:failed", dense: true });
  expect(views.map(({ name }) => name)).toEqual(["mine", "failed"]);
  expect(withView(views, "mine", { q: "owner:bob" }).at(-1)).toEqual({ name: "mine", look: { q: "owner:bob" } });
  expect(withView(views, "  ", { q: "x" })).toBe(views);
  expect(parsed(JSON.stringify(views))).toEqual(views);
});

it("ignores invalid stored values", () => {
  for (const kept of [null, "", "{", "7", '[null, 1, {"name": ""}, {"name": "a"}, {"name": 3, "look": {}}]'])
    expect(parsed(kept)).toEqual([]);
  expect(parsed('[{"name": "a", "look": {"q": [3], "sort": "loss", "group": "seed", "dense": "yes"}}]')).toEqual([{ name: "a", look: {} }]);
});
