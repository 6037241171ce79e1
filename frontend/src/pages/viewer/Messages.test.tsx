import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import { beforeEach, expect, it, vi } from "vitest";
import type { MessagePart, MessageView, SequenceList } from "@/api/groups";
import { fill, serverFor } from "@/testing/page";

beforeEach(() => {
  Element.prototype.scrollIntoView ??= () => {};
});

const ROUTE = "/api/v1/runs/{run}/groups/{group}/sequences/{sequence}/messages";
const LIST: SequenceList = { results: [], next: null, common_prefix: 0, has_text: false, has_messages: true, fields: [] };

function part(kind: MessagePart["kind"], text: string, changes: Partial<MessagePart> = {}): MessagePart {
  return { kind, text, characters: text.length, name: "", call_id: "", is_error: false, picture: null, ...changes };
}

function message(index: number, role: string, ...parts: MessagePart[]): MessageView {
  const characters = parts.reduce((sum, one) => sum + one.characters, 0);
  return { index, role, parts, characters, extra: "", extra_characters: 0 };
}

async function open(...messages: MessageView[]) {
  const server = serverFor().on("GET", ROUTE, { results: messages, next: null, total: messages.length, pictures: [] });
  // The client keeps the `fetch` with which it was loaded.
  vi.resetModules();
  const { Messages } = await import("@/pages/viewer/Messages");
  render(
    <QueryClientProvider client={new QueryClient()}>
      <MantineProvider env="test">
        <Messages run="r" group={1} sequence={0} list={LIST} />
      </MantineProvider>
    </QueryClientProvider>,
  );
  return server;
}

const said = (name: string) => screen.findByRole("region", { name });

it("formats texts with code, lists and formulas, or shows them as written", async () => {
  const text = "## Plan\n\n1. add `a`\n2. solve $x^2$\n\n```python\nprint(1)\n```\nfirst\nsecond";
  await open(message(0, "assistant", part("text", text)));
  const answer = await said("Message 1, assistant");
  expect(await within(answer).findByRole("heading", { name: "Plan", level: 4 })).toBeVisible();
  expect(within(answer).getAllByRole("listitem")).toHaveLength(2);
  expect(answer.querySelector("pre code")).toHaveTextContent("print(1)");
  await waitFor(() => expect(answer.querySelector("math")).toHaveTextContent("x"));

  fireEvent.click(screen.getByRole("radio", { name: "As written" }));
  expect(within(answer).queryByRole("heading")).toBeNull();
  expect(answer.querySelector("pre")).toHaveTextContent("## Plan 1. add `a`");
  expect(localStorage.getItem("rolldeck.messages")).toContain("raw");
});

it("shows reasoning folded, calls with arguments, and results with the tool of their call", async () => {
  await open(
    message(
      0,
      "assistant",
      part("reasoning", "which city"),
      part("tool_call", '{\n  "city": "Oslo"\n}', { name: "weather", call_id: "c1" }),
    ),
    message(1, "tool", part("tool_result", "7 °C", { call_id: "c1" }), part("tool_result", "timeout", { call_id: "c2", is_error: true })),
    message(2, "user", part("other", '{"type":"audio"}', { name: "audio" })),
  );
  const call = await said("Message 1, assistant");
  expect(within(call).getByText("Reasoning, 10 characters").closest("details")).not.toHaveAttribute("open");
  expect(call.querySelector("[data-part=tool_call]")).toHaveTextContent('Call weather{ "city": "Oslo" }');
  const [result, error] = (await said("Message 2, tool")).querySelectorAll("[data-part=tool_result]");
  expect(result).toHaveTextContent("Result weather7 °C");
  expect(error).toHaveTextContent("Error timeout");
  expect(error).toHaveAttribute("data-failed");
  expect((await said("Message 3, user")).querySelector("[data-part] summary")).toHaveTextContent("audio");
});

it.each([
  ["<script>alert(1)</script><img src=x onerror=alert(1)>", "script, img, a"],
  ["[a](javascript:alert(1)) [b](data:text/html,x) [c](mailto:a@b.c)", "a"],
  ["[home](/settings) [here](#x) [other](//evil.example)", "a"],
  ["![pixel](http://evil.example/pixel.png)", "img"],
  ["$\\href{javascript:alert(1)}{x}$", "a"],
])("renders no active content of %j", async (text, selector) => {
  await open(message(0, "assistant", part("text", text)));
  const answer = await said("Message 1, assistant");
  await waitFor(() => expect(answer.querySelector("[data-markdown]")).not.toBeNull());
  if (text.includes("$")) await waitFor(() => expect(answer.querySelector("math")).not.toBeNull());
  expect(answer.querySelectorAll(selector)).toHaveLength(0);
});

it("opens web links of a text outside of the page", async () => {
  await open(message(0, "assistant", part("text", "[paper](https://example.org/p)")));
  const link = await screen.findByRole("link", { name: "paper" });
  expect(link).toHaveAttribute("rel", "noreferrer noopener");
  expect(link).toHaveAttribute("target", "_blank");
});

it("finds text in all messages, also in folded reasoning", async () => {
  await open(
    message(0, "user", part("text", "Is it warm in Oslo?")),
    message(1, "assistant", part("reasoning", "oslo is north"), part("text", "No.", { characters: 900 })),
  );
  await said("Message 2, assistant");
  const field = screen.getByLabelText("Find in messages");
  await screen.findByText(/warm in Oslo/);
  fill(field, "oslo");
  expect(await screen.findByText("1 of 2; 897 characters are not loaded")).toBeVisible();
  fireEvent.keyDown(field, { key: "Enter" });
  expect(await screen.findByText(/^2 of 2/)).toBeVisible();
  expect(screen.getByText(/^Reasoning/).closest("details")).toHaveAttribute("open");
  fireEvent.keyDown(field, { key: "Enter", shiftKey: true });
  expect(await screen.findByText(/^1 of 2/)).toBeVisible();
  fill(field, "cold");
  expect(await screen.findByText(/^no match/)).toBeVisible();
  fireEvent.keyDown(field, { key: "Escape" });
  expect(field).toHaveValue("");
});

it("collapses one message or all", async () => {
  await open(message(0, "user", part("text", "question")), message(1, "assistant", part("tool_call", "{}", { name: "look" })));
  await screen.findByText("question");
  const first = (await said("Message 1, user")).querySelector("details") as HTMLDetailsElement;
  first.open = false;
  expect(screen.getByText("question")).not.toBeVisible();
  fireEvent.click(screen.getByRole("button", { name: "Collapse all" }));
  expect((await said("Message 2, assistant")).querySelector("summary")).toHaveTextContent("assistant 2 characters · calls look");
  expect(document.querySelector("section details[open]")).toBeNull();
  fireEvent.click(screen.getByRole("button", { name: "Expand all" }));
  expect(await screen.findByText("question")).toBeVisible();
});

it("loads more of one message", async () => {
  const server = await open(message(0, "user", part("text", "beginning", { characters: 30_000 })));
  const more = await screen.findByRole("button", { name: "Show more of 29,991 characters" });
  server.on("GET", ROUTE, ({ query }) => {
    const whole = part("text", `beginning of ${query.get("message")}`, { characters: 30_000 });
    return { results: [message(0, "user", whole)], next: null, total: 1, pictures: [] };
  });
  fireEvent.click(more);
  expect(await screen.findByText("beginning of 0")).toBeVisible();
});

const TURNS: SequenceList["results"][number]["turns"] = [
  [0, 2, false],
  [2, 6, true],
];
const TOKENS = [9, 8, 7, 6, 5, 4];

async function openTokens(text: string[] | null) {
  const sequence = { index: 0, score: 1, tokens: TOKENS.length, own_tokens: 4, advantage: null, turns: TURNS };
  const list = { ...LIST, results: [sequence as SequenceList["results"][number]], has_text: text !== null, has_messages: false };
  const columns = { is_own: TOKENS.map((_, at) => at > 1), logprobs: null, ref_logprobs: null, advantages: null };
  serverFor().on("GET", "/api/v1/runs/{run}/groups/{group}/sequences/{sequence}", {
    index: 0,
    start: 0,
    total: TOKENS.length,
    tokens: TOKENS,
    text,
    ...columns,
  });
  vi.resetModules();
  const { Messages } = await import("@/pages/viewer/Messages");
  render(
    <QueryClientProvider client={new QueryClient()}>
      <MantineProvider env="test">
        <Messages run="r" group={1} sequence={0} list={list} />
      </MantineProvider>
    </QueryClientProvider>,
  );
}

it("shows tokens as words where a group has no messages and its run has a tokenizer", async () => {
  await openTokens(["Say", " hello<|im_end|>", "", "你", " <b>😀", "\u202e⟨99⟩"]);
  expect(await said("Message 1, prompt")).toHaveTextContent("Say hello<|im_end|>");
  expect(await said("Message 2, policy")).toHaveTextContent("你 <b>😀⟨U+202E⟩⟨99⟩");
  expect(document.querySelector("pre b")).toBeNull();
});

it("names the command that stores a tokenizer where a run has none", async () => {
  await openTokens(null);
  expect(await screen.findByText(/the run has no tokenizer/)).toBeVisible();
  expect(await screen.findByText(/rolldeck run tokenizer r tokenizer.json/)).toBeVisible();
});
