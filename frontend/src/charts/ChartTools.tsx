/** The menu of a chart, with its table, picture and file. */

import { ActionIcon, Button, Menu, Space } from "@mantine/core";
import { Ellipsis, Maximize2 } from "lucide-react";
import { type RefObject, useState } from "react";
import uPlot from "uplot";
import { SHAPES } from "@/charts/lineStyles";
import type { ChartLook } from "@/charts/look";
import type { Cell, ChartProps, Line, Range, Sheet } from "@/charts/model";
import { canvasFont, paint } from "@/charts/plot";
import { fileName, save } from "@/charts/save";
import { csvText, isShown, sheetOf } from "@/charts/sheet";
import { placeName } from "@/charts/TipBox";
import { Dialog, DialogFoot } from "@/components/Dialog";
import { Table } from "@/components/Table";
import { clock, number, utc } from "@/format";
import css from "./chart.module.css";

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

type Props = { name: string; sheet: Sheet; isTime: boolean; onClose: () => void };

const ROWS_A_PAGE = 100;

function Value({ value, isMoment }: { value: Cell; isMoment: boolean }) {
  if (typeof value !== "number") return <>{value ?? "–"}</>;
  if (!isMoment) return <>{number(value, 6)}</>;
  const at = new Date(value * 1000).toISOString();
  return (
    <time dateTime={at} title={utc(at)}>
      {clock(at)}
    </time>
  );
}

/** The chart's data as a table, 100 rows per page. */
export function SheetDialog({ name, sheet, isTime, onClose }: Props) {
  const [first, setFirst] = useState(0);
  const { head, rows, place } = sheet;
  const page = rows.slice(first, first + ROWS_A_PAGE);
  const range =
    rows.length > 0 ? `${number(first + 1)} – ${number(first + page.length)} of ${number(rows.length)} rows in view` : "No data in view.";
  return (
    <Dialog onClose={onClose} title={`${name} as a table`} size="xl">
      <Table
        label={`Rows of ${name}`}
        role="region"
        className={css.sheet}
        columns={[...head.map((title, i) => ({ label: title, isNumber: typeof rows[0]?.[i] !== "string" }))]}
      >
        {page.map((row, i) => (
          <tr key={first + i}>
            {head.map((title, at) => (
              <td key={title} {...(typeof row[at] === "string" ? { className: "anywhere" } : { "data-num": true })}>
                <Value value={row[at]} isMoment={isTime && at === place} />
              </td>
            ))}
          </tr>
        ))}
      </Table>
      <DialogFoot>
        <span className="small soft" role="status">
          {range}
        </span>
        <Space flex={1} />
        <Button size="compact-sm" variant="default" disabled={first === 0} onClick={() => setFirst(first - ROWS_A_PAGE)}>
          Previous
        </Button>
        <Button
          size="compact-sm"
          variant="default"
          disabled={first + ROWS_A_PAGE >= rows.length}
          onClick={() => setFirst(first + ROWS_A_PAGE)}
        >
          Next
        </Button>
      </DialogFoot>
    </Dialog>
  );
}

type ChartMenuProps = {
  name: string;
  look: ChartLook;
  onLook: (more: ChartLook) => void;
  /** Whether the x axis can be logarithmic. */
  hasLogX: boolean;
  /** Whether the x axis can be another metric. */
  hasXChoices: boolean;
  isOpen: boolean;
  setIsOpen: (isOpen: boolean) => void;
  /** The last cursor position as text; null if there was none. */
  cursor: string | null;
  onTable: () => void;
  onPicture: () => void;
  onFile: () => void;
  onCopy: () => void;
  onLink?: () => void;
  actions?: readonly { label: string; act: () => void }[];
};

/** The menu of a chart. */
export function ChartMenu({
  name,
  look,
  onLook,
  hasLogX,
  hasXChoices,
  isOpen,
  setIsOpen,
  cursor,
  onTable,
  onPicture,
  onFile,
  onCopy,
  onLink,
  actions = [],
}: ChartMenuProps) {
  const flag = (key: "isLog" | "isLogX" | "isClipped", label: string) => (
    <Menu.CheckboxItem checked={look[key] ?? false} onChange={(isOn) => onLook({ [key]: isOn })}>
      {label}
    </Menu.CheckboxItem>
  );
  return (
    <div className={css.menu} data-open={isOpen || undefined}>
      {!look.isLarge && (
        <ActionIcon size={24} variant="subtle" color="gray" aria-label={`Enlarge ${name}`} onClick={() => onLook({ isLarge: true })}>
          <Maximize2 size={14} aria-hidden="true" />
        </ActionIcon>
      )}
      <Menu opened={isOpen} onChange={setIsOpen} position="bottom-end" shadow="md">
        <Menu.Target>
          <ActionIcon size={24} variant="subtle" color="gray" aria-label={`Options of ${name}`}>
            <Ellipsis size={16} aria-hidden="true" />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {flag("isLog", "Log axis")}
          {hasLogX && flag("isLogX", "Log x axis")}
          {flag("isClipped", "Without outliers")}
          {!look.isLarge && <Menu.Item onClick={() => onLook({ isLarge: true })}>Enlarge and set ranges</Menu.Item>}
          {hasXChoices && !look.isLarge && <Menu.Item onClick={() => onLook({ isLarge: true })}>Metric as x axis…</Menu.Item>}
          <Menu.Divider />
          <Menu.Item onClick={onTable}>Show as table</Menu.Item>
          <Menu.Item onClick={onPicture}>Save as PNG</Menu.Item>
          <Menu.Item onClick={onFile}>Save as CSV</Menu.Item>
          <Menu.Item disabled={cursor === null} rightSection={<span className="faint tiny">Ctrl C</span>} onClick={onCopy}>
            {cursor === null ? "Copy values under the cursor" : `Copy values at ${cursor}`}
          </Menu.Item>
          {onLink && <Menu.Item onClick={onLink}>Copy link</Menu.Item>}
          {actions.length > 0 && <Menu.Divider />}
          {actions.map(({ label, act }) => (
            <Menu.Item key={label} onClick={act}>
              {label}
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
    </div>
  );
}

type ChartToolsProps = {
  chart: ChartProps;
  plot: RefObject<uPlot | null>;
  look: ChartLook;
  onLook: (more: ChartLook) => void;
  hidden: readonly string[];
  lastIndex: RefObject<number | null>;
  onCopy: (index: number) => void;
  /** Copies a link to the chart; absent where charts have none. */
  onLink?: () => void;
};

const EVERYTHING: Range = { from: -Infinity, to: Infinity };

function rangeOf(plot: uPlot | null): Range {
  const { min, max } = plot?.scales.x ?? {};
  return typeof min === "number" && typeof max === "number" ? { from: min, to: max } : EVERYTHING;
}

/** The menu of a chart, with the actions for the visible data. */
export function ChartTools({ chart, plot, look, onLook, hidden, lastIndex, onCopy, onLink }: ChartToolsProps) {
  const [sheet, setSheet] = useState<Sheet | null>(null);
  const [isOpen, setIsOpen] = useState(false);
  const { name, x, xLabel } = chart;
  const rows = () => chart.sheet?.(rangeOf(plot.current)) ?? sheetOf(chart, rangeOf(plot.current), hidden);
  const picture = () => {
    if (!plot.current) return;
    const lines = chart.lines.filter((line) => isShown(line, hidden));
    pictureOf(plot.current, { name, xLabel, lines }).toBlob((blob) => blob && save(blob, fileName(name, "png")));
  };
  const index = isOpen ? lastIndex.current : null;
  const place = index === null ? undefined : x[index];
  return (
    <>
      <ChartMenu
        name={name}
        look={look}
        onLook={onLook}
        hasLogX={!chart.isTime}
        hasXChoices={chart.xChoices !== undefined}
        isOpen={isOpen}
        setIsOpen={setIsOpen}
        cursor={place === undefined ? null : placeName(chart, place)}
        onTable={() => setSheet(rows())}
        onPicture={picture}
        onFile={() => save(new Blob([csvText(rows())], { type: "text/csv" }), fileName(name, "csv"))}
        onCopy={() => index !== null && onCopy(index)}
        onLink={onLink}
        actions={chart.actions?.map(({ label, act }) => ({ label, act: () => act(lastIndex.current) }))}
      />
      {sheet && <SheetDialog name={name} sheet={sheet} isTime={chart.isTime} onClose={() => setSheet(null)} />}
    </>
  );
}
