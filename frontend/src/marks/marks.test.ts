import { expect, it } from "vitest";
import { type Mark, tagsOfAll } from "@/marks/marks";

const marked = (...tags: string[]) => ({ mark: { tags, note: "", changed_by: "", changed_at: "" } as Mark });

it("finds the tags that all groups have", () => {
  expect(tagsOfAll([])).toEqual([]);
  expect(tagsOfAll([marked("a", "b"), marked("b", "c")])).toEqual(["b"]);
  expect(tagsOfAll([marked("a"), { mark: null }])).toEqual([]);
});
