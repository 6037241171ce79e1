import { useEffect, useRef } from "react";
import type { Level } from "./levels";

export type Row = { text: string; level: Level | null };

/** The lines: at a marked one, or at their end as long as the reader has not scrolled up. */
export function LogLines({ rows, mark }: { rows: Row[]; mark: number | null }) {
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  // New lines are the reason to scroll.
  useEffect(() => {
    if (box.current && atEnd.current && mark === null) box.current.scrollTop = box.current.scrollHeight;
  }, [rows, mark]);
  useEffect(() => {
    if (mark !== null) box.current?.querySelector("[data-marked]")?.scrollIntoView({ block: "center" });
  }, [mark]);
  return (
    <pre
      ref={box}
      className="log"
      tabIndex={0}
      role="group"
      aria-label="Log, oldest line first"
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        atEnd.current = scrollHeight - scrollTop - clientHeight < 24;
      }}
    >
      {rows.map(({ text, level }, place) => (
        // Lines have no name but their place.
        <span
          key={place}
          data-level={level ?? undefined}
          data-marked={place === mark || undefined}
          className={text.startsWith("---") ? "faint" : undefined}
        >
          {text}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}
