import { useState } from "react";
import { number, visible } from "@/format";

const MAX_LENGTH = 400;
/** A shorter remainder is not worth expanding. */
const MIN_REMAINDER = 200;

/** The text, truncated if it is much longer than the limit; never splits a surrogate pair. */
export function truncate(text: string): string {
  if (text.length <= MAX_LENGTH + MIN_REMAINDER) return text;
  return text.slice(0, MAX_LENGTH).replace(/[\uD800-\uDBFF]$/, "");
}

/** Long untrusted text, truncated until expanded. */
export function LongText({ text }: { text: string }) {
  const [isWhole, setWhole] = useState(false);
  const words = visible(text);
  const truncated = truncate(words);
  if (isWhole || truncated === words) return words;
  return (
    <>
      {truncated}…{" "}
      <button type="button" className="link-button small" onClick={() => setWhole(true)}>
        Show all {number(words.length)} characters
      </button>
    </>
  );
}
