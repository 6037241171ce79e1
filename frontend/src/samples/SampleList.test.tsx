import { fireEvent, screen, waitFor } from "@testing-library/react";
import { expect, it } from "vitest";
import type { Sample } from "@/samples/samples";
import { fill, here, load, serverFor } from "@/testing/page";
import { sampleOf, samplesOf } from "@/testing/samples";
import { Refusal } from "@/testing/server";

const QUALIFIERS = [
  { name: "env", form: "text" as const, operators: [":", "=", "~"], choices: [], meaning: "An environment.", example: "env:math" },
  {
    name: "state",
    form: "choice" as const,
    operators: [":", "="],
    choices: ["queued", "dropped"],
    meaning: "State.",
    example: "state:dropped",
  },
];

type Asked = { query: URLSearchParams };
type List = Refusal | ReturnType<typeof samplesOf>;

/** A server whose list depends on the request. */
const listing = (list: (query: URLSearchParams) => List) =>
  serverFor()
    .on("GET", "/api/v1/trajectories/filter", { results: QUALIFIERS, next: null })
    .on("GET", "/api/v1/trajectories/filter/values", ({ query }) => ({
      results: query.get("of") === "env" ? [{ value: "long division", count: 3 }] : [],
      next: null,
    }))
    .on("GET", "/api/v1/trajectories", (({ query }: Asked) => list(query)) as never);

const rows = () => [...document.querySelectorAll<HTMLElement>("[data-sample]")].map(({ dataset }) => dataset.sample);
const box = () => screen.findByRole("combobox", { name: "Filter samples" });

it("shows prompt, answer, state and the cause of a drop in one row", async () => {
  const why = "queued for longer than max_age_seconds";
  listing(() => samplesOf([sampleOf("7", { state: "dropped", why, environment: "math" })]));
  await load("/trajectories");
  const row = (await screen.findByRole("link", { name: "Prompt 7" })).closest("tr");
  for (const text of ["answer 7", "math", `dropped · ${why}`]) expect(row).toHaveTextContent(text);
});

it("filters by the language, which is part of the address, and names invalid words", async () => {
  const message = "at character 1: unknown qualifier 'colour'; known: env, state";
  listing((query) => {
    const q = query.get("q") ?? "";
    if (q === "colour:red") return new Refusal({ status: 400, code: "invalid", detail: message, errors: [{ field: "q", message }] });
    return samplesOf(q ? [sampleOf("1")] : [sampleOf("2"), sampleOf("1")]);
  });
  await load("/trajectories");
  await waitFor(() => expect(rows()).toEqual(["2", "1"]));
  fill(await box(), "env:math score:<0.2");
  await waitFor(() => expect(rows()).toEqual(["1"]));
  expect(here()).toContain("q=env%3Amath");
  fill(await box(), "colour:red");
  expect(await screen.findByText(message)).toBeVisible();
  expect(rows()).toEqual(["1"]);
});

it("completes qualifiers and their values, which it quotes", async () => {
  listing(() => samplesOf([]));
  const user = await load("/trajectories");
  await user.click(await box());
  await user.keyboard("en");
  await user.click(await screen.findByText("env:math"));
  await user.click(await screen.findByText("long division"));
  expect(await box()).toHaveValue('env:"long division" ');
});

it("sorts by a column: greatest first, least first", async () => {
  listing((query) => samplesOf([sampleOf(query.get("sort") ?? "newest")]));
  const user = await load("/trajectories");
  for (const order of ["-score", "score"]) {
    await user.click(await screen.findByRole("button", { name: "Score" }));
    await waitFor(() => expect(rows()).toEqual([order]));
  }
});

it("shows chosen metadata as columns, which sort the list", async () => {
  const asked: URLSearchParams[] = [];
  listing((query) => {
    asked.push(query);
    const columns = { "meta.difficulty": 3, "override.level": ["easy", "hard"] };
    return samplesOf([sampleOf("1", { columns: query.has("columns") ? columns : {} })]);
  }).on("GET", "/api/v1/trajectories/columns", {
    results: [
      { value: "meta.difficulty", count: 9 },
      { value: "override.level", count: 4 },
    ],
    next: null,
  });
  const user = await load("/trajectories");
  await user.click(await screen.findByText("Columns"));
  await user.click(await screen.findByLabelText("meta.difficulty"));
  await user.click(await screen.findByLabelText("override.level"));
  await waitFor(() => expect(here()).toContain("columns=meta.difficulty%2Coverride.level"));
  const row = (await screen.findByText("easy, hard")).closest("tr");
  expect(row).toHaveTextContent("3");
  await user.keyboard("{Escape}");
  fireEvent.click(await screen.findByRole("button", { name: "difficulty" }));
  await waitFor(() => expect(asked.at(-1)?.get("sort")).toBe("-meta.difficulty"));
  expect(asked.at(-1)?.get("columns")).toBe("meta.difficulty,override.level");
});

it("completes keys of metadata, and their values", async () => {
  const form = { form: "value" as const, operators: [":", ">"], choices: [], meaning: "Metadata.", example: "meta.difficulty:>3" };
  listing(() => samplesOf([]))
    .on("GET", "/api/v1/trajectories/filter", { results: [{ ...form, name: "meta" }], next: null })
    .on("GET", "/api/v1/trajectories/columns", { results: [{ value: "meta.topic", count: 9 }], next: null })
    .on("GET", "/api/v1/trajectories/filter/values", ({ query }) => ({
      results: query.get("of") === "meta.topic" ? [{ value: "sums", count: 5 }] : [],
      next: null,
    }));
  const user = await load("/trajectories");
  await user.click(await box());
  await user.keyboard("met");
  await user.click(await screen.findByText("meta.topic:"));
  await user.click(await screen.findByText("sums"));
  expect(await box()).toHaveValue("meta.topic:sums ");
});

it("shows correctness as a share and the range of advantages, where groups have them", async () => {
  listing((query) =>
    samplesOf([sampleOf("2", query.get("q") ? {} : { correct: 1, sequences: 2, advantages: [-0.5, null, 1] }), sampleOf("1")]),
  );
  await load("/trajectories");
  const row = (await screen.findByRole("link", { name: "Prompt 2" })).closest("tr");
  expect(row).toHaveTextContent("1/2");
  expect(row).toHaveTextContent("-0.5 … 1");
  fill(await box(), "env:math");
  await waitFor(() => expect(screen.queryByText("Solved")).toBeNull());
  expect(screen.queryByText("Advantage")).toBeNull();
});

it("lists episodes and fragments of fleets", async () => {
  const kinds: Record<string, Partial<Sample>> = {
    episode: { kind: "episode", state: "", worker: "w3" },
    fragment: { kind: "fragment", slot: "w0-7@a", number: 124, score: null },
  };
  listing((query) => {
    const kind = query.get("kind") ?? "group";
    return samplesOf([sampleOf(kind === "episode" ? "w0-7@a/9" : "5", { ...kinds[kind], excerpt: "", answer: "" })]);
  });
  await load("/trajectories");
  fireEvent.click(await screen.findByText("Episodes"));
  expect(await screen.findByRole("link", { name: /^Episode 9 of w0-7/ })).toBeVisible();
  fireEvent.click(screen.getByText("Fragments"));
  expect(await screen.findByRole("link", { name: /^w0-7.* · 124$/ })).toBeVisible();
  expect(here()).toContain("kind=fragment");
});

it("announces new samples and inserts them on a click", async () => {
  let newest = [sampleOf("1")];
  let reads = 0;
  listing(() => {
    // The list is read first, then its newest samples.
    if (reads++ > 0) newest = [sampleOf("3"), sampleOf("2"), sampleOf("1")];
    return samplesOf(newest);
  });
  await load("/trajectories");
  await waitFor(() => expect(rows().length).toBeGreaterThan(0));
  const button = await screen.findByText("2 new", undefined, { timeout: 20_000 });
  expect(rows()).toEqual(["1"]);
  fireEvent.click(button);
  await waitFor(() => expect(rows()).toEqual(["3", "2", "1"]));
}, 30_000);

it("fills a row that is not indexed yet", async () => {
  let asked = 0;
  listing(() => {
    asked += 1;
    return samplesOf([sampleOf("1", asked < 3 ? { is_indexed: false, excerpt: "", answer: "", scores: [] } : {})]);
  });
  await load("/trajectories");
  expect(await screen.findByRole("link", { name: "Group 1" })).toBeVisible();
  expect(await screen.findByRole("link", { name: "Prompt 1" }, { timeout: 3_000 })).toBeVisible();
});

it("states what a list does not cover", async () => {
  listing(() =>
    samplesOf([sampleOf("1")], { is_partial: true, next: "more", runs: 500, runs_left_out: 3, partly_searched: 2, unindexed: 4 }),
  );
  await load("/trajectories?q=word");
  const status = await screen.findByText(/^Searched the newest 500 runs; 3 older ones match too/);
  expect(status).toHaveTextContent("Searched a part of the groups");
  expect(status).toHaveTextContent("4 groups are not indexed yet");
  expect(status).toHaveTextContent("2 groups with over 64,000 characters of text searched in part");
  expect(screen.getByText("Search older")).toBeVisible();
});

it("offers to clear a filter without matches, and to retry after an error", async () => {
  let fails = false;
  listing((query) => {
    if (fails) return new Refusal({ status: 500, code: "error", detail: "the server failed" });
    return samplesOf(query.get("q") ? [] : [sampleOf("1")]);
  });
  await load("/trajectories?q=nothing");
  fireEvent.click(await screen.findByText("Clear filter"));
  await waitFor(() => expect(rows()).toEqual(["1"]));
  fails = true;
  fireEvent.click(await screen.findByRole("button", { name: "Score" }));
  const retry = await screen.findByText("Retry");
  fails = false;
  fireEvent.click(retry);
  await waitFor(() => expect(rows()).toEqual(["1"]));
});
