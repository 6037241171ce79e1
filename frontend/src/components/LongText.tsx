import { useState } from "react";
import { truncate } from "@/components/truncate";
import { number, visible } from "@/format";

/** Long untrusted text, truncated until expanded. */
export function LongText({ text }: { text: string }) {
  const [isWhole, setWhole] = useState(false);
  const words = visible(text);
  const truncated = truncate(words);
  if (isWhole || truncated === words) return <>{words}</>;
  return (
    <>
      {truncated}…{" "}
      <button type="button" className="link-button small" onClick={() => setWhole(true)}>
        Show all {number(words.length)} characters
      </button>
    </>
  );
}
