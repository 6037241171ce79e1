/** Inspect and choose chart points with the keyboard or a click. */

import { useState } from "react";
import type uPlot from "uplot";

/** A second click within this time is a double click, which zooms out. */
const DOUBLE_CLICK_MS = 220;
/** Pointer movement up to this distance is a click; beyond it, a drag. */
const SLIP_PX = 4;

/** Call `choose` with the index of the clicked point; drags and double clicks are ignored. */
export function onClickedPoint(plot: uPlot, choose: (index: number) => void): void {
  let pressedAt = 0;
  let timer = 0;
  plot.over.addEventListener("mousedown", (event) => {
    pressedAt = event.clientX;
    window.clearTimeout(timer);
  });
  plot.over.addEventListener("click", (event) => {
    const index = plot.cursor.idx;
    if (event.detail > 1 || Math.abs(event.clientX - pressedAt) > SLIP_PX || index === null || index === undefined) return;
    timer = window.setTimeout(() => choose(index), DOUBLE_CLICK_MS);
  });
}

type Props = {
  name: string;
  points: number;
  textOf: (index: number) => string;
  onMove: (index: number) => void;
  onCopy: (index: number) => void;
  /** Absent for charts whose points cannot be chosen. */
  onChoose?: (index: number) => void;
};

/** Keyboard access to chart points: a slider that is visible while focused. */
export function PointKeys({ name, points, textOf, onMove, onCopy, onChoose }: Props) {
  const [wanted, setWanted] = useState(Number.POSITIVE_INFINITY);
  const at = Math.min(wanted, points - 1);
  return (
    <input
      type="range"
      className="chart-keys"
      min={0}
      max={points - 1}
      value={at}
      aria-label={`Points of ${name}`}
      aria-valuetext={`${textOf(at)}${onChoose ? ". Press Enter for details." : ""}`}
      onFocus={() => onMove(at)}
      onBlur={() => onMove(-1)}
      onChange={(event) => {
        setWanted(event.currentTarget.valueAsNumber);
        onMove(event.currentTarget.valueAsNumber);
      }}
      onKeyDown={(event) => {
        const isCopy = (event.ctrlKey || event.metaKey) && event.key === "c";
        if (!isCopy && !(event.key === "Enter" && onChoose)) return;
        event.preventDefault();
        if (isCopy) onCopy(at);
        else onChoose?.(at);
      }}
    />
  );
}
