import { expect, it } from "vitest";
import type { MessagePart, MessageView } from "@/api/groups";
import { folded, textDiff, transcript } from "@/pages/viewer/textDiff";

const written = (left: string, right: string) =>
  textDiff(left, right)
    .passages.map(({ kind, text }) => (kind === "equal" ? text : kind === "removed" ? `[-${text}-]` : `{+${text}+}`))
    .join("");

it.each([
  ["the sum is 4", "the sum is 5", "the sum is [-4-]{+5+}"],
  ["", "new", "{+new+}"],
  ["same", "same", "same"],
  ["a b", "a  b", "a[- -]{+  +}b"],
  ["東京 is 大", "東京 is 小", "東京 is [-大-]{+小+}"],
])("marks the words that differ between %j and %j", (left, right, marked) => {
  expect(written(left, right)).toBe(marked);
});

it("gives both texts back", () => {
  const [left, right] = ["one two\nthree 👩‍🔬 four", "one 2\nthree 👩 four five"];
  const { passages } = textDiff(left, right);
  const without = (kind: string) => passages.flatMap((each) => (each.kind === kind ? [] : [each.text])).join("");
  expect(without("added")).toBe(left);
  expect(without("removed")).toBe(right);
});

it("marks lines as a whole where too many words differ, and words in the others", () => {
  const text = (word: string, by: string) => Array.from({ length: 3_000 }, (_, at) => `${word}${at}`).join(by);
  const { passages, isCoarse } = textDiff(`${text("a", " ")}\nsame\nis 4`, `${text("b", " ")}\nsame\nis 5`);
  expect(isCoarse).toBe(true);
  expect(passages.map(({ kind }) => kind)).toEqual(["removed", "added", "equal", "equal", "removed", "added"]);
  expect(passages.slice(-2)).toEqual([
    { kind: "removed", text: "4" },
    { kind: "added", text: "5" },
  ]);
  const whole = textDiff(text("a", "\n"), text("b", "\n"));
  expect(whole).toMatchObject({ isCoarse: true, passages: [{ kind: "removed" }, { kind: "added" }] });
});

it("compares long texts with a few changed words in less than a second", () => {
  const line = "the sum of the weights is a prompt of the train set ".repeat(8);
  const text = (changed: string) => Array.from({ length: 2_500 }, (_, at) => `${line}${at % 10 === 0 ? changed : ""}`).join("\n");
  const start = performance.now();
  const { passages, isCoarse } = textDiff(text("left"), text("right"));
  expect(performance.now() - start).toBeLessThan(1_000);
  expect(isCoarse).toBe(false);
  expect(passages.filter(({ kind }) => kind === "removed").map(({ text }) => text)).toEqual(Array(250).fill("left"));
});

it("folds long equal passages and keeps their ends", () => {
  const equal = `begin${"x".repeat(5_000)}end`;
  const [start, end, changed] = folded([
    { kind: "equal", text: equal },
    { kind: "added", text: "y".repeat(5_000) },
  ]);
  expect(start?.text).toMatch(/^begin/);
  expect(end?.text).toMatch(/end$/);
  expect((start?.text.length ?? 0) + (start?.left_out ?? 0) + (end?.text.length ?? 0)).toBe(equal.length);
  expect(changed?.text).toHaveLength(5_000);
});

function message(role: string, ...parts: [MessagePart["kind"], string, string?][]): MessageView {
  const view = ([kind, text, name = ""]: [MessagePart["kind"], string, string?]): MessagePart => ({
    kind,
    text,
    name,
    characters: text.length,
    call_id: "",
    is_error: false,
    picture: null,
  });
  return { index: 0, role, parts: parts.map(view), characters: 0, extra: "", extra_characters: 0 };
}

it("writes an answer as one text, with roles, reasoning and calls if it has several parts", () => {
  const prompt = message("user", ["text", "How warm?"]);
  expect(transcript([prompt, message("assistant", ["text", "7 \u202e°C"])])).toBe("7 ⟨U+202E⟩°C");
  const called = message("assistant", ["reasoning", "look"], ["tool_call", "{}", "weather"]);
  expect(transcript([prompt, called, message("tool", ["tool_result", "7"]), message("assistant", ["text", "7 °C"])])).toBe(
    "[assistant reasoning]\nlook\n\n[assistant call weather]\n{}\n\n[tool result]\n7\n\n[assistant]\n7 °C",
  );
  expect(transcript([prompt])).toBe("");
});
