import type { Line } from "@/charts/Chart";

/** What each colour of a chart stands for; the chart's own name says it to those who cannot see. */
export function Legend({ entries }: { entries: [Line["role"], string][] }) {
  return (
    <div className="legend tiny soft" aria-hidden="true">
      {entries.map(([role, text]) => (
        <span key={text}>
          <span className="swatch" style={{ background: `var(--chart-${role})` }} /> {text}
        </span>
      ))}
    </div>
  );
}
