import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { expect, it } from "vitest";
import type { GroupSummary } from "@/api/groups";
import { here, load, serverFor } from "@/testing/page";
import { addRun, runOf } from "@/testing/runs";
import { detailOf, groupOf, PROMPT, sampleOf } from "@/testing/samples";
import { Refusal, type Server } from "@/testing/server";

const PATH = "/api/v1/runs/{run}/groups/{group}";

const sampleOfGroup = ({ id, epoch, policy_step, score_mean, answer }: GroupSummary) =>
  sampleOf(String(id), { run: "math", epoch, policy_step, score: score_mean, answer });

const ANSWERS: Record<string, string> = {
  "40/0": "The sum is 4.",
  "40/1": "The sum is 5.",
  "41/0": "The sum is surely 4.",
  "42/0": "Four.",
};

function sequence(index: number, score: number) {
  return {
    index,
    score,
    tokens: 5,
    own_tokens: 3,
    advantage: null,
    zero_advantage: false,
    temperature: null,
    logprob: null,
    is_truncated: null,
    is_correct: null,
    duplicate_of: null,
    diverges_at: 3,
    turns: [],
    surprises: [],
    spans: [],
  };
}

function message(index: number, role: string, text: string) {
  const part = { kind: "text" as const, text, characters: text.length, name: "", call_id: "", is_error: false, picture: null };
  return { index, role, parts: [part], characters: text.length, extra: "", extra_characters: 0 };
}

/** Three groups of one prompt, of the policy versions 9, 2 and 5. */
function viewed(groups = [groupOf(40, 9), groupOf(41, 2), groupOf(42, 5)]): Server {
  const server = serverFor();
  addRun(server, runOf("math"));
  const idOf = (path: string) => Number(path.split("/")[6]);
  return server
    .on("GET", "/api/v1/trajectories", ({ query }) => ({
      results: query.get("q") === `prompt:${PROMPT}` && !query.has("from_group") ? groups.map(sampleOfGroup) : [],
      next: null,
      is_partial: false,
      runs: 1,
      runs_left_out: 0,
      unindexed: 0,
      partly_searched: 0,
    }))
    .on("GET", PATH, ({ path }) => {
      const group = groups.find(({ id }) => id === idOf(path));
      return group ? detailOf(group) : new Refusal({ status: 404, code: "not_found", detail: "no such group" });
    })
    .on("GET", `${PATH}/sequences`, {
      results: [sequence(0, 1), sequence(1, 0)] as never,
      next: null,
      common_prefix: 3,
      has_text: false,
      has_messages: true,
      fields: [],
    })
    .on("GET", `${PATH}/sequences/{sequence}/messages`, ({ path }) => {
      const text = ANSWERS[`${idOf(path)}/${path.split("/")[8]}`] ?? "";
      const results = [message(0, "user", "Add 2 and 2"), message(1, "assistant", text)];
      return { results, next: null, total: 2, pictures: [] };
    });
}

const side = (name: string) => screen.findByRole("region", { name });
const texts = (of: HTMLElement, tag: "del" | "ins") => [...of.querySelectorAll(`[data-text] ${tag}`)].map((each) => each.textContent);

it("lists the groups of a prompt by policy version, and compares the answers of two", async () => {
  viewed();
  await load("/runs/math/groups/40");
  fireEvent.click(await screen.findByRole("tab", { name: "Over versions" }));
  const list = within(await screen.findByRole("region", { name: "This prompt over versions" }));
  expect(list.getByText(/^3 groups of this prompt by 3 policy versions/)).toHaveTextContent("First mean score 0.41, last 0.4.");
  expect([...document.querySelectorAll<HTMLElement>("[data-group]")].map(({ dataset }) => dataset.group)).toEqual(["41", "42", "40"]);
  expect(list.getByRole("checkbox", { name: "Select group 40" })).toBeChecked();
  expect(list.getByRole("link", { name: "answer 41" })).toHaveAttribute("href", `/runs/math/groups/41?q=prompt%3A${PROMPT}`);

  fireEvent.click(list.getByRole("checkbox", { name: "Select group 41" }));
  const [older, newer] = [await side("Left: group 41, sequence 0"), await side("Right: group 40, sequence 0")];
  await waitFor(() => expect(texts(older, "del")).toEqual(["surely "]));
  expect(older).toHaveTextContent("policy 0.2");
  expect(texts(newer, "ins")).toEqual([]);
  expect(newer).toHaveTextContent("The sum is 4.");
  expect(list.getByRole("status")).toHaveTextContent("1 deletion 0 insertions");

  // A third group takes the place of the one that was selected first.
  fireEvent.click(list.getByRole("checkbox", { name: "Select group 42" }));
  await waitFor(() => expect(here()).toMatch(/left=42%2F0&right=40%2F0/));
  fireEvent.click(list.getByRole("checkbox", { name: "Select group 42" }));
  expect(await list.findByText("Select a second group to compare the answers.")).toBeVisible();
});

it("states in words what became of a group, with and without content", async () => {
  const outcome = "Dropped on arrival: \u202ewith equal scores.";
  const server = viewed();
  await load("/runs/math/groups/41");
  expect(await screen.findByText("Trained on in batch 41.")).toBeVisible();
  const group = groupOf(41, 2, { state: "dropped", drop_reason: "zero_variance", has_bytes: false });
  server.on("GET", PATH, { ...detailOf(group), outcome });
  await load("/runs/math/groups/41");
  expect(await screen.findByText("Dropped on arrival: ⟨U+202E⟩with equal scores.")).toBeVisible();
  expect(screen.getByText(/^Content not stored/)).toBeVisible();
  expect(screen.getByText(/zero variance/)).toBeVisible();
});

it("has the metadata and overrides of a group, each value a filter of the list", async () => {
  const facts = { "meta.difficulty": 4.5, "meta.source": 'a "quote"', "override.level": ["easy", "two words"] };
  viewed().on("GET", PATH, { ...detailOf(groupOf(40, 9)), facts });
  await load("/runs/math/groups/40");
  expect(await screen.findByRole("link", { name: "4.5" })).toHaveAttribute("href", "/runs/math/trajectories?q=meta.difficulty%3A4.5");
  expect(screen.getByRole("link", { name: "two words" })).toHaveAttribute(
    "href",
    expect.stringContaining("override.level%3A%22two+words%22"),
  );
  expect(screen.getByText("Override level").parentElement).toHaveTextContent("easy, two words");
  expect(screen.getByText('a "quote"')).toBeVisible();
});

it("shows no versions of an unknown prompt", async () => {
  viewed([groupOf(40, 9, { prompt: "" })]);
  await load("/runs/math/groups/40?view=versions");
  expect(await screen.findByText(/^Prompt unknown/)).toBeVisible();
});

it("compares the best and the worst answer of a group, or its other sequences", async () => {
  viewed();
  await load("/runs/math/groups/40?view=diff");
  await waitFor(async () => expect(texts(await side("Left: group 40, sequence 0"), "del")).toEqual(["4"]));
  const worst = await side("Right: group 40, sequence 1");
  expect(texts(worst, "ins")).toEqual(["5"]);

  fireEvent.change(within(worst).getByLabelText("Right sequence"), { target: { value: "0" } });
  expect(await screen.findByText("The answers are equal.")).toBeVisible();
});

it("says why an answer cannot be compared, and shows the other", async () => {
  const server = viewed();
  server.on("GET", `${PATH}/sequences`, ({ path }) =>
    path.includes("/41/")
      ? new Refusal({ status: 410, code: "gone", detail: "its bytes were removed" })
      : {
          results: [sequence(0, 1)] as never,
          next: null,
          common_prefix: 3,
          has_text: false,
          has_messages: true,
          fields: [],
        },
  );
  await load("/runs/math/groups/40?view=diff&left=41%2F0&right=40%2F0");
  await waitFor(async () => expect(await side("Left: group 41, sequence 0")).toHaveTextContent("its bytes were removed"));
  await waitFor(async () => expect(await side("Right: group 40, sequence 0")).toHaveTextContent("The sum is 4."));
});

it("compares the ids of tokens where a group has no text", async () => {
  viewed()
    .on("GET", `${PATH}/sequences`, {
      results: [sequence(0, 1), sequence(1, 0)] as never,
      next: null,
      common_prefix: 3,
      has_text: false,
      has_messages: false,
      fields: [],
    })
    .on("GET", `${PATH}/sequences/{sequence}`, ({ path }) => {
      const last = path.endsWith("/1") ? 9 : 8;
      return {
        index: Number(path.at(-1)),
        start: 0,
        total: 4,
        tokens: [1, 2, 7, last],
        is_own: [false, false, true, true],
        text: null,
        logprobs: null,
        ref_logprobs: null,
        advantages: null,
      };
    });
  await load("/runs/math/groups/40?view=diff");
  const left = await side("Left: group 40, sequence 0");
  await waitFor(() => expect(texts(left, "del")).toEqual(["8"]));
  expect(left).toHaveTextContent("7 8");
  expect(texts(await side("Right: group 40, sequence 1"), "ins")).toEqual(["9"]);
});
