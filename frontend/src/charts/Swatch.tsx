import { type LineStyle, SHAPES } from "@/charts/lineStyles";

const DASHES = [6, 4];

/** A sample of a line, with its dashes and marker. */
export function Swatch({
  look: { role, dash, dashed, marker },
}: {
  look: Partial<LineStyle> & Pick<LineStyle, "role"> & { dashed?: boolean };
}) {
  const colour = `var(--chart-${role})`;
  return (
    <svg className="chart-swatch" width="26" height="10" viewBox="-13 -5 26 10" aria-hidden="true">
      <line
        x1="-13"
        x2="13"
        y1="0"
        y2="0"
        stroke={colour}
        strokeWidth="2"
        strokeDasharray={(dash ?? (dashed ? DASHES : [])).join(" ") || undefined}
      />
      {marker && <path d={SHAPES[marker]} transform="scale(4)" fill={colour} />}
    </svg>
  );
}
