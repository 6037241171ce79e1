/** Render a chart to an image: title, lines and axes on the theme's background. */

import uPlot from "uplot";
import { SHAPES } from "@/charts/lineStyles";
import type { Line } from "@/charts/model";
import { canvasFont, paint } from "@/charts/paint";

const MARGIN = 16;
const TITLE = 30;
const ROW = 18;
const FOOT = 22;
const SWATCH = 26;

type Named = { line: Line; left: number; top: number };

/** Wrap line names into rows of the chart's width. */
function rowsOf(context: CanvasRenderingContext2D, lines: Line[], width: number): { named: Named[]; rows: number } {
  let left = 0;
  let row = 0;
  const named = lines.map((line) => {
    const wide = SWATCH + 8 + context.measureText(line.label).width + 18;
    if (left > 0 && left + wide > width) {
      left = 0;
      row += 1;
    }
    const place = { line, left, top: row * ROW };
    left += wide;
    return place;
  });
  return { named, rows: lines.length > 0 ? row + 1 : 0 };
}

function nameLine(context: CanvasRenderingContext2D, { line, left, top }: Named): void {
  const middle = top + ROW / 2;
  context.strokeStyle = context.fillStyle = paint(`--chart-${line.role}`);
  context.lineWidth = line.thin ? 1 : 2;
  context.setLineDash(line.dash ?? (line.dashed ? [6, 4] : []));
  context.beginPath();
  context.moveTo(left, middle);
  context.lineTo(left + SWATCH, middle);
  context.stroke();
  if (line.marker) {
    context.save();
    context.translate(left + SWATCH / 2, middle);
    context.scale(4, 4);
    context.fill(new Path2D(SHAPES[line.marker]));
    context.restore();
  }
  context.fillStyle = paint("--ink-soft");
  context.fillText(line.label, left + SWATCH + 8, middle);
}

export type Title = { name: string; xLabel: string; lines: Line[] };

/** A canvas of the chart as shown, at the screen's resolution. */
export function pictureOf(plot: uPlot, { name, xLabel, lines }: Title): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  context.font = canvasFont("xs");
  const { named, rows } = rowsOf(context, lines, plot.width);
  const head = MARGIN + TITLE + rows * ROW + 6;
  const width = plot.width + 2 * MARGIN;
  const height = head + plot.height + FOOT + MARGIN / 2;
  // Setting the size of a canvas resets its context.
  canvas.width = width * uPlot.pxRatio;
  canvas.height = height * uPlot.pxRatio;
  context.scale(uPlot.pxRatio, uPlot.pxRatio);
  context.fillStyle = paint("--panel");
  context.fillRect(0, 0, width, height);
  context.textBaseline = "middle";
  context.fillStyle = paint("--ink");
  context.font = canvasFont("md", "bold");
  context.fillText(name, MARGIN, MARGIN + TITLE / 3, plot.width);
  context.font = canvasFont("xs");
  context.save();
  context.translate(MARGIN, MARGIN + TITLE);
  for (const one of named) nameLine(context, one);
  context.restore();
  context.drawImage(plot.ctx.canvas, MARGIN, head, plot.width, plot.height);
  context.fillStyle = paint("--ink-faint");
  context.textAlign = "center";
  context.fillText(xLabel, width / 2, head + plot.height + FOOT / 2);
  return canvas;
}
