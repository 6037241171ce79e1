import { useEffect, useRef } from "react";
import logCss from "@/pages/run/logs/logs.module.css";
import type { Level } from "./levels";

export type Row = { text: string; level: Level | null };

/** Log lines, scrolled to a marked line, or to the end unless the user scrolled up. */
export function LogLines({ rows, mark }: { rows: Row[]; mark: number | null }) {
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  // Scroll when lines arrive.
  useEffect(() => {
    if (box.current && atEnd.current && mark === null) box.current.scrollTop = box.current.scrollHeight;
  }, [rows, mark]);
  useEffect(() => {
    if (mark !== null) box.current?.querySelector("[data-marked]")?.scrollIntoView({ block: "center" });
  }, [mark]);
  return (
    <pre
      ref={box}
      className={logCss.log}
      tabIndex={0}
      role="group"
      aria-label="Log, oldest line first"
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        atEnd.current = scrollHeight - scrollTop - clientHeight < 24;
      }}
    >
      {rows.map(({ text, level }, place) => (
        // Lines have no key but their index.
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
