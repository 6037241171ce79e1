import { describe, expect, it } from "vitest";
import { chips, listSearch, tabSearch, toggled } from "@/pages/run/trajectories/search";

describe("the URL of a list", () => {
  it("keeps valid parameters only", () => {
    const search = { state: "dropped", env: [0, 0, "none"], score_min: "0.5", q: 42, sort: "luck", evil: "x", step_min: "a" };
    expect(listSearch(search)).toEqual({ state: ["dropped"], env: ["0", "none"], score_min: 0.5, q: "42" });
  });
  it("keeps the filters of episodes with their view only", () => {
    const search = { environment: "gymnasium:CartPole-v1", sort: "score", score_max: 9 };
    expect(tabSearch({ ...search, show: "episodes", state: "queued" })).toEqual({ ...search, show: "episodes" });
    expect(tabSearch({ ...search, show: "luck" })).toEqual({ sort: "score", score_max: 9 });
  });
  it("drops inverted ranges", () => {
    expect(listSearch({ length_min: 9, length_max: 3 })).toEqual({});
  });
  it("accepts labels as digits and prompts as digests", () => {
    expect(listSearch({ label: [3, "0", "x"], mark: ["pinned", "noted"], set: "kept", prompt: "nonsense" })).toEqual({
      label: ["3"],
      mark: ["noted"],
    });
    expect(listSearch({ prompt: "0123456789abcdef0123456789abcdef" })).toEqual({ prompt: "0123456789abcdef0123456789abcdef" });
  });
  it("accepts episodes as a slot and a number", () => {
    expect(listSearch({ episode: "w0-3@5f2c/12" })).toEqual({ episode: "w0-3@5f2c/12" });
    expect(listSearch({ episode: "w0-3@5f2c" })).toEqual({});
    const [chip] = chips({ episode: "w0-3@5f2c/12", q: "w0" }, (_, value) => value);
    expect([chip?.label, chip?.without]).toEqual(["episode: w0-3@5f2c/12", { q: "w0" }]);
  });
  it("is idempotent", () => {
    const once = listSearch({ flag: ["stale", "truncated"], sort: "score", score_max: 0 });
    expect(listSearch(once)).toEqual(once);
  });
});

describe("choices", () => {
  it("are toggled", () => {
    const chosen = toggled({ q: "x" }, "state", "queued");
    expect(chosen).toEqual({ q: "x", state: ["queued"] });
    expect(toggled(chosen, "state", "queued")).toEqual({ q: "x" });
  });
  it("are chips that each remove one filter", () => {
    const query = { state: ["queued"], score_min: 0, score_max: 0, step_min: 3 };
    const found = chips(query, (_, value) => value);
    expect(found.map((chip) => chip.label)).toEqual(["state: queued", "score: 0", "step: 3 to …"]);
    expect(found[1]?.without).toEqual({ state: ["queued"], step_min: 3 });
  });
});
