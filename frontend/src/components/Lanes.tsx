import type { HTMLAttributes, ReactNode } from "react";
import css from "./lanes.module.css";

/** A part of a line. */
type Segment = {
  key: string;
  /** Its begin as a share of the line; without one it follows the segment before it. */
  from?: number;
  /** Its length as a share of the line. */
  width: number;
  /** CSS background. */
  fill: string;
};

export type Lane = {
  key: string | number;
  label: ReactNode;
  segments: Segment[];
  /** The segments in words, for screen readers and as a tooltip; without them the line is decoration. */
  words?: string;
  /** A limit, as a share of the line. */
  mark?: number;
  /** Text at the end of the line. */
  aside?: ReactNode;
  /** Attributes of the lane, such as `data-worker`. */
  attributes?: HTMLAttributes<HTMLLIElement> & Record<`data-${string}`, string | number | undefined>;
};

/** A fill of stripes, for time or items that wait. */
export const striped = (colour: string): string => `repeating-linear-gradient(45deg, ${colour} 0 3px, var(--panel) 3px 6px)`;

const percentage = (part: number) => `${100 * Math.min(1, Math.max(0, part))}%`;

/** One line of segments. */
export function Line({ segments, words, mark }: Pick<Lane, "segments" | "words" | "mark">) {
  const described = words ? ({ role: "img", "aria-label": words, title: words } as const) : ({ "aria-hidden": true } as const);
  let end = 0;
  return (
    <span className={css.line} {...described}>
      {segments.map(({ key, from = end, width, fill }) => {
        end = from + width;
        return width > 0 && <span key={key} style={{ left: percentage(from), width: percentage(width), background: fill }} />;
      })}
      {mark !== undefined && <i style={{ left: percentage(mark) }} />}
    </span>
  );
}

/** The fill of a segment, beside its name. */
export const Swatch = ({ fill }: { fill: string }) => <span className={css.swatch} style={{ background: fill }} aria-hidden="true" />;

type Props = { label: string; lanes: readonly Lane[]; isOrdered?: boolean };

/** Lines of segments with one scale, each with a label before it and a text after it. */
export function Lanes({ label, lanes, isOrdered }: Props) {
  const List = isOrdered ? "ol" : "ul";
  return (
    <List className={css.lanes} aria-label={label}>
      {lanes.map(({ key, label: name, aside, attributes, ...line }) => (
        <li key={key} {...attributes}>
          <span className={css.name}>{name}</span>
          <Line {...line} />
          <span className={css.aside}>{aside}</span>
        </li>
      ))}
    </List>
  );
}
