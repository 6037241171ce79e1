import type { Kept } from "@/charts/kept";
import { toggled } from "@/charts/names";
import type { Line } from "@/charts/plot";
import { Swatch } from "@/charts/Swatch";
import { entryOf } from "@/charts/sheet";

type Props = {
  lines: Line[];
  hidden: Kept<readonly string[]>;
  /** What the band shows, where there is one. */
  band?: string;
};

/** The names of the lines; each is a switch that shows or hides it. */
export function Legend({ lines, hidden, band }: Props) {
  // What is drawn last of an entry is what stands out of it.
  const entries = new Map(lines.map((line) => [entryOf(line), line]));
  return (
    <div className="chart-legend" role="group" aria-label="Lines">
      {[...entries].map(([entry, line]) => (
        <button
          key={entry}
          type="button"
          className="chart-entry"
          aria-pressed={!hidden.value.includes(entry)}
          onClick={() => hidden.change(toggled(hidden.value, entry))}
        >
          <Swatch look={line} />
          <span>{entry}</span>
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
