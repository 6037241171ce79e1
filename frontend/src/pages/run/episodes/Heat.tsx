import { useMemo } from "react";
import { valueAt } from "@/charts/scale";
import { dayAndClock, number } from "@/format";
import type { EpisodeSpread } from "@/pages/run/episodes/api";
import { cellsOf, heatText } from "@/pages/run/episodes/heat";

const [WIDTH, HEIGHT] = [480, 160];

type Props = { name: string; spread: EpisodeSpread; least: number | undefined; most: number | undefined };

/** A heat map over the life of a run: darker cells hold more of their column's episodes. */
export function Heat({ name, spread, least, most }: Props) {
  const { columns } = spread;
  const cells = useMemo(() => cellsOf(columns), [columns]);
  const bins = columns[0]?.counts.length ?? 1;
  const [across, up] = [WIDTH / Math.max(1, columns.length), HEIGHT / bins];
  const [low, high] = [spread.least ?? 0, spread.most ?? 0];
  const edge = (bin: number) => valueAt(bin / bins, low, high);
  const isOut = (bin: number) => {
    return (least !== undefined && edge(bin + 1) < least) || (most !== undefined && edge(bin) > most);
  };
  return (
    <figure className="heat">
      <div className="heat-scale tiny faint" aria-hidden="true">
        <span>{number(spread.most)}</span>
        <span>{number(spread.least)}</span>
      </div>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${name} over time, ${heatText(spread)}`}>
        {cells.map(({ column, bin, count, part }) => (
          <rect
            key={`${column} ${bin}`}
            x={column * across}
            y={HEIGHT - (bin + 1) * up}
            width={across}
            height={up}
            // The faintest cell still differs from an empty one.
            fillOpacity={0.15 + 0.85 * part}
            className={isOut(bin) ? "heat-out" : "heat-cell"}
          >
            <title>{`${dayAndClock(columns[column]?.at)}, ${number(edge(bin))} to ${number(edge(bin + 1))}: ${number(count)}`}</title>
          </rect>
        ))}
      </svg>
      <div className="heat-times tiny faint" aria-hidden="true">
        <span>{dayAndClock(columns[0]?.at)}</span>
        <span>{dayAndClock(columns.at(-1)?.at)}</span>
      </div>
    </figure>
  );
}
