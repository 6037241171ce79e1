/** Draw annotations on a chart: markers, a threshold and shaded ranges. */

import type uPlot from "uplot";
import type { Mark, Marked } from "@/charts/model";
import { paint } from "@/charts/paint";

const INK: Record<Mark["role"], string> = { note: "--accent", event: "--ink-faint", version: "--busy" };
const DASH: Record<Mark["role"], number[]> = { note: [], event: [2, 4], version: [1, 6] };
/** Above this number of versions in view, their lines would hide the chart. */
const VERSIONS_AT_MOST = 24;
const FLAG_WIDTH = 9;
const FLAG_HEIGHT = 7;
const NEAR_PX = 6;

function drawFlag(ctx: CanvasRenderingContext2D, x: number, top: number, ratio: number): void {
  ctx.beginPath();
  ctx.moveTo(x, top);
  ctx.lineTo(x + FLAG_WIDTH * ratio, top + (FLAG_HEIGHT * ratio) / 2);
  ctx.lineTo(x, top + FLAG_HEIGHT * ratio);
  ctx.closePath();
  ctx.fill();
}

/** Marks within a range; versions only if there are few of them. */
export function shownMarks(marks: readonly Mark[], from: number, to: number): Mark[] {
  const within = marks.filter(({ x }) => x >= from && x <= to);
  const versions = within.filter(({ role }) => role === "version").length;
  return versions > VERSIONS_AT_MOST ? within.filter(({ role }) => role !== "version") : within;
}

/** The shown marks of a plot's present range. */
export function marksIn(u: uPlot, marks: readonly Mark[]): Mark[] {
  const { min, max } = u.scales.x ?? {};
  return shownMarks(marks, min ?? -Infinity, max ?? Infinity);
}

/** Draw the visible marks as thin lines; users' notes carry a flag. */
export function drawMarks(u: uPlot, marks: readonly Mark[], ratio: number): void {
  const { ctx } = u;
  const { top, height } = u.bbox;
  ctx.save();
  ctx.lineWidth = ratio;
  for (const { x, role } of marksIn(u, marks)) {
    const at = Math.round(u.valToPos(x, "x", true)) + 0.5;
    ctx.strokeStyle = ctx.fillStyle = paint(INK[role]);
    ctx.setLineDash(DASH[role].map((length) => length * ratio));
    ctx.beginPath();
    ctx.moveTo(at, top);
    ctx.lineTo(at, top + height);
    ctx.stroke();
    if (role === "note") drawFlag(ctx, at, top, ratio);
  }
  ctx.restore();
}

/** Draw the threshold. */
export function drawThreshold(u: uPlot, { threshold }: Marked, ratio: number): void {
  const { ctx } = u;
  const { left, top, width, height } = u.bbox;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  if (threshold !== undefined) {
    const level = Math.round(u.valToPos(threshold, "y", true)) + 0.5;
    ctx.strokeStyle = paint("--bad");
    ctx.lineWidth = 1.5 * ratio;
    ctx.setLineDash([6 * ratio, 4 * ratio]);
    ctx.beginPath();
    ctx.moveTo(left, level);
    ctx.lineTo(left + width, level);
    ctx.stroke();
  }
  ctx.restore();
}

/** Marks under the pointer; `placeOf` converts an x value to pixels, as `left`. */
export function marksAt(marks: readonly Mark[], left: number, placeOf: (x: number) => number): Mark[] {
  return marks.filter(({ x }) => Math.abs(placeOf(x) - left) <= NEAR_PX);
}
