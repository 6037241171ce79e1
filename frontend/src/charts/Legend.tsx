import type { KeyboardEvent, MouseEvent } from "react";
import type { Controlled } from "@/charts/controllableState";
import { styleText } from "@/charts/lineStyles";
import type { Line } from "@/charts/model";
import { isolated, toggled } from "@/charts/names";
import { Swatch } from "@/charts/Swatch";
import { entryOf } from "@/charts/sheet";
import { number } from "@/format";

type Props = {
  lines: Line[];
  hidden: Controlled<readonly string[]>;
  /** Label of the band, if there is one. */
  band?: string;
};

const HINT = "Click to hide or show; Shift and click, or Shift and Enter, to show it alone";

/** The newest value of a line; none before the first sample. */
function newestOf(line: Line): string {
  const newest = line.values.findLast((value) => typeof value === "number");
  return newest === undefined || newest === null ? "" : number(newest);
}

/** The legend: each entry toggles its line, or shows it alone. */
export function Legend({ lines, hidden, band }: Props) {
  // The last line of an entry is the prominent one.
  const entries = new Map(lines.map((line) => [entryOf(line), line]));
  // Its first line has the samples, the others are derived from them.
  const sampled = new Map([...lines].reverse().map((line) => [entryOf(line), line]));
  const isolate = (entry: string) => hidden.change(isolated([...entries.keys()], hidden.value, entry));
  const onKeyDown = (entry: string) => (event: KeyboardEvent) => {
    if (event.key !== "Enter" || !event.shiftKey) return;
    event.preventDefault();
    isolate(entry);
  };
  const onClick = (entry: string) => (event: MouseEvent) => {
    if (event.shiftKey) isolate(entry);
    else hidden.change(toggled(hidden.value, entry));
  };
  return (
    <div className="chart-legend" role="group" aria-label="Lines">
      {[...entries].map(([entry, line]) => (
        <button
          key={entry}
          type="button"
          className="chart-entry"
          aria-pressed={!hidden.value.includes(entry)}
          title={`${styleText(line)}. ${HINT}`}
          onClick={onClick(entry)}
          onKeyDown={onKeyDown(entry)}
        >
          <Swatch look={line} />
          <span>{entry}</span>
          <b>{newestOf(sampled.get(entry) ?? line)}</b>
        </button>
      ))}
      {band && (
        <span className="chart-entry">
          <span className="chart-swatch chart-band" aria-hidden="true" />
          <span>{band}</span>
        </span>
      )}
    </div>
  );
}
