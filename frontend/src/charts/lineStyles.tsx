/** Distinguish the lines of one chart by colour, dash and marker, never by colour alone. */

import css from "./chart.module.css";

type Role = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8;
type Marker = "circle" | "square" | "triangle" | "diamond" | "plus" | "cross" | "star";
export type LineStyle = { role: Role; dash: number[]; marker: Marker };

const ROLES = 8;
const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3]];
const MARKERS: Marker[] = ["circle", "square", "triangle", "diamond", "plus", "cross", "star"];

/** SVG paths of markers around 0,0 with a radius of about 1. */
export const SHAPES: Record<Marker, string> = {
  circle: "M-.9 0a.9 .9 0 1 0 1.8 0a.9 .9 0 1 0-1.8 0z",
  square: "M-.8-.8h1.6v1.6h-1.6z",
  triangle: "M0-1L1 .8H-1z",
  diamond: "M0-1.15L1.15 0 0 1.15-1.15 0z",
  plus: "M-.3-1h.6v.7h.7v.6h-.7v.7h-.6v-.7h-.7v-.6h.7z",
  cross: "M-.9-.5l.4-.4.5.5.5-.5.4.4-.5.5.5.5-.4.4-.5-.5-.5.5-.4-.4.5-.5z",
  star: "M0-1.2L.35-.37 1.14-.37.5.14.7.97 0 .48-.7.97-.5.14-1.14-.37-.35-.37z",
};

const DASH_WORDS = ["Solid line", "Dashed line", "Dotted line", "Dash-dotted line"];

/** A line style in words: `Dashed line with squares`. */
export function styleText({ dash, dashed, marker }: Partial<Pick<LineStyle, "dash" | "marker">> & { dashed?: boolean }): string {
  const at = DASHES.findIndex((known) => JSON.stringify(known) === JSON.stringify(dash ?? []));
  const words = dashed ? "Dashed line" : (DASH_WORDS[at] ?? "Line");
  if (!marker) return words;
  return `${words} with ${marker === "cross" ? "crosses" : `${marker}s`}`;
}

/** The style of the line at an index; the first 56 differ, and neighbours differ in colour, dash and marker. */
export function lineStyleAt(place: number): LineStyle {
  return {
    role: ((place % ROLES) + 1) as Role,
    dash: DASHES[place % DASHES.length] as number[],
    marker: MARKERS[place % MARKERS.length] as Marker,
  };
}

const SWATCH_DASHES = [6, 4];

/** A sample of a line, with its dashes and marker. */
export function Swatch({
  look: { role, dash, dashed, marker },
}: {
  look: Partial<LineStyle> & Pick<LineStyle, "role"> & { dashed?: boolean };
}) {
  const colour = `var(--chart-${role})`;
  return (
    <svg className={css.swatch} width="26" height="10" viewBox="-13 -5 26 10" aria-hidden="true">
      <line
        x1="-13"
        x2="13"
        y1="0"
        y2="0"
        stroke={colour}
        strokeWidth="2"
        strokeDasharray={(dash ?? (dashed ? SWATCH_DASHES : [])).join(" ") || undefined}
      />
      {marker && <path d={SHAPES[marker]} transform="scale(4)" fill={colour} />}
    </svg>
  );
}
