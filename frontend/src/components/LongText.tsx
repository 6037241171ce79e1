import { useState } from "react";
import { beginningOf } from "@/components/beginning";
import { number, visible } from "@/format";

/** Long untrusted text, truncated until expanded. */
export function LongText({ text }: { text: string }) {
  const [isWhole, setWhole] = useState(false);
  const words = visible(text);
  const beginning = beginningOf(words);
  if (isWhole || beginning === words) return <>{words}</>;
  return (
    <>
      {beginning}…{" "}
      <button type="button" className="link-button small" onClick={() => setWhole(true)}>
        Show all {number(words.length)} characters
      </button>
    </>
  );
}
