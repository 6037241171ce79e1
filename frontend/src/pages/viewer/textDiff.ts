/** Differences of two answers as text. Pure. */

import { type Change, diffLines, diffWordsWithSpace } from "diff";
import { answerOf, type MessageView } from "@/api/groups";
import { visible } from "@/format";

/** Insertions and deletions that a comparison may find; its time grows with their square. */
const MOST_EDITS = 2_000;
/** A longer equal passage is folded to this many characters at each end. */
const KEPT_EQUAL = 240;
const FOLDED_EQUAL = 3 * KEPT_EQUAL;

/** A passage of both texts, or of the left (removed) or right (added) one; `left_out` characters are folded. */
export type Passage = { kind: "equal" | "removed" | "added"; text: string; left_out?: number };
export type TextDiff = {
  passages: Passage[];
  /** Some lines differ in too many words, and are shown as a whole. */
  isCoarse: boolean;
};

const kindOf = ({ added, removed }: Change): Passage["kind"] => (added ? "added" : removed ? "removed" : "equal");
const passagesOf = (changes: Change[]): Passage[] => changes.map((change) => ({ kind: kindOf(change), text: change.value }));

/** The difference of two texts: by lines, and of changed lines by words. */
export function textDiff(left: string, right: string): TextDiff {
  const whole: Passage[] = [
    { kind: "removed", text: left },
    { kind: "added", text: right },
  ];
  const byLines = diffLines(left, right, { maxEditLength: MOST_EDITS });
  const passages: Passage[] = [];
  let budget = MOST_EDITS ** 2;
  let isCoarse = false;
  for (const passage of byLines ? passagesOf(byLines) : whole) {
    const before = passages.at(-1);
    if (passage.kind !== "added" || before?.kind !== "removed") {
      passages.push(passage);
      continue;
    }
    // Half of the remaining budget; the other half is kept for later lines.
    const limit = Math.floor(Math.sqrt(budget / 2));
    const byWords = diffWordsWithSpace(before.text, passage.text, { maxEditLength: limit });
    const edits = byWords?.reduce((sum, change) => sum + (change.added || change.removed ? change.count : 0), 0);
    budget -= (edits ?? limit) ** 2;
    isCoarse ||= !byWords;
    if (byWords) passages.splice(-1, 1, ...passagesOf(byWords));
    else passages.push(passage);
  }
  return { passages, isCoarse };
}

/** The passages with long equal ones in two parts, their beginning and end. */
export function folded(passages: Passage[]): Passage[] {
  return passages.flatMap((passage) => {
    if (passage.kind !== "equal" || passage.text.length <= FOLDED_EQUAL) return [passage];
    const { kind, text } = passage;
    const left_out = text.length - 2 * KEPT_EQUAL;
    return [
      { kind, text: text.slice(0, KEPT_EQUAL), left_out },
      { kind, text: text.slice(-KEPT_EQUAL) },
    ];
  });
}

/** Names of the parts that are not the message's own text. */
const PART_WORDS: Partial<Record<string, string>> = { reasoning: "reasoning", tool_call: "call", tool_result: "result" };

/**
 * The answer of a sequence as one text: all from the first message of the assistant on.
 *
 * Messages and parts begin with a line in brackets, except for a single text.
 */
export function transcript(messages: MessageView[]): string {
  const pieces = answerOf(messages).flatMap(({ role, parts }) =>
    parts
      .filter(({ kind }) => kind === "text" || PART_WORDS[kind])
      .map(({ kind, name, text }) => ({ head: [role, PART_WORDS[kind], name].filter(Boolean).join(" "), text })),
  );
  const [only] = pieces;
  if (pieces.length === 1 && only) return visible(only.text);
  return visible(pieces.map(({ head, text }) => `[${head}]\n${text}`).join("\n\n"));
}
