import type { Controlled } from "@/charts/controllableState";
import type { Line } from "@/charts/model";
import { toggled } from "@/charts/names";
import { Swatch } from "@/charts/Swatch";
import { entryOf } from "@/charts/sheet";

type Props = {
  lines: Line[];
  hidden: Controlled<readonly string[]>;
  /** Label of the band, if there is one. */
  band?: string;
};

/** The legend: each entry toggles its line. */
export function Legend({ lines, hidden, band }: Props) {
  // The last line of an entry is the prominent one.
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
