import { shareOf } from "@/charts/scale";

const WIDTH = 72;
const HEIGHT = 20;
const MARGIN = 2;

/** A sparkline without axes: it shows the trend, not the magnitude. */
export function Spark({ values, label }: { values: number[]; label: string }) {
  if (values.length < 2) return <span className="faint">–</span>;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const points = values.map((value, i) => {
    const x = MARGIN + (i / (values.length - 1)) * (WIDTH - 2 * MARGIN);
    const y = HEIGHT - MARGIN - (high > low ? shareOf(value, low, high) : 0) * (HEIGHT - 2 * MARGIN);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  return (
    <svg width={WIDTH} height={HEIGHT} role="img" aria-label={label}>
      <polyline points={points.join(" ")} fill="none" stroke="var(--chart-1)" strokeWidth="1.5" strokeLinejoin="round" />
    </svg>
  );
}
