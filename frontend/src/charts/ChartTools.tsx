/** The menu of a chart, with its table and file. */

import { ActionIcon, Menu } from "@mantine/core";
import { Ellipsis, Maximize2 } from "lucide-react";
import { type ReactNode, type RefObject, useState } from "react";
import type uPlot from "uplot";
import type { ChartLook } from "@/charts/look";
import type { Cell, ChartProps, Range, Sheet } from "@/charts/model";
import { fileName, save } from "@/charts/save";
import { csvText, sheetOf } from "@/charts/sheet";
import { type Column, DataTable } from "@/components/DataTable";
import { Dialog } from "@/components/Dialog";
import { clock, number, utc } from "@/format";
import css from "./chart.module.css";

const ROWS_A_PAGE = 100;

function textOf(value: Cell, isMoment: boolean): ReactNode {
  if (typeof value !== "number") return value ?? "–";
  if (!isMoment) return number(value, 6);
  const at = new Date(value * 1000).toISOString();
  return <span title={utc(at)}>{clock(at)}</span>;
}

/** The chart's data as a table. */
function SheetDialog({ name, sheet, isTime, onClose }: { name: string; sheet: Sheet; isTime: boolean; onClose: () => void }) {
  const { head, rows, place } = sheet;
  const columns = head.map(
    (label, i): Column<Cell[]> => ({
      label,
      className: typeof rows[0]?.[i] === "string" ? "anywhere" : "num",
      cell: (row) => textOf(row[i], isTime && i === place),
    }),
  );
  return (
    <Dialog onClose={onClose} title={`${name} as a table`} size="xl">
      <DataTable
        label={`Rows of ${name}`}
        role="group"
        rows={rows}
        columns={columns}
        keyOf={String}
        page={ROWS_A_PAGE}
        empty={<p className="soft">No data in view.</p>}
      />
    </Dialog>
  );
}

type Props = {
  chart: ChartProps;
  plot: RefObject<uPlot | null>;
  look: ChartLook;
  onLook: (more: ChartLook) => void;
  hidden: readonly string[];
  lastIndex: RefObject<number | null>;
  /** Copies a link to the chart; absent where charts have none. */
  onLink?: () => void;
};

function rangeOf(plot: uPlot | null): Range {
  const { min, max } = plot?.scales.x ?? {};
  return { from: min ?? -Infinity, to: max ?? Infinity };
}

/** The menu of a chart, with the actions for the visible data. */
export function ChartTools({ chart, plot, look, onLook, hidden, lastIndex, onLink }: Props) {
  const [sheet, setSheet] = useState<Sheet | null>(null);
  const [isOpen, setOpen] = useState(false);
  const { name, isTime, actions = [] } = chart;
  const rows = () => chart.sheet?.(rangeOf(plot.current)) ?? sheetOf(chart, rangeOf(plot.current), hidden);
  const icon = { size: 24, variant: "subtle", color: "gray" } as const;
  const flag = (key: "isLog" | "isLogX" | "isClipped", label: string) => (
    <Menu.CheckboxItem checked={look[key] ?? false} onChange={(isOn) => onLook({ [key]: isOn })}>
      {label}
    </Menu.CheckboxItem>
  );
  return (
    <>
      <div className={css.menu} data-open={isOpen || undefined}>
        {!look.isLarge && (
          <ActionIcon {...icon} aria-label={`Enlarge ${name}`} title="Enlarge; axes" onClick={() => onLook({ isLarge: true })}>
            <Maximize2 size={14} aria-hidden="true" />
          </ActionIcon>
        )}
        <Menu opened={isOpen} onChange={setOpen} position="bottom-end" shadow="md">
          <Menu.Target>
            <ActionIcon {...icon} aria-label={`Options of ${name}`}>
              <Ellipsis size={16} aria-hidden="true" />
            </ActionIcon>
          </Menu.Target>
          <Menu.Dropdown>
            {flag("isLog", "Log axis")}
            {!isTime && flag("isLogX", "Log x axis")}
            {flag("isClipped", "Without outliers")}
            <Menu.Divider />
            <Menu.Item onClick={() => setSheet(rows())}>Show as table</Menu.Item>
            <Menu.Item onClick={() => save(new Blob([csvText(rows())], { type: "text/csv" }), fileName(name, "csv"))}>
              Save as CSV
            </Menu.Item>
            {onLink && <Menu.Item onClick={onLink}>Copy link</Menu.Item>}
            {actions.length > 0 && <Menu.Divider />}
            {actions.map(({ label, act }) => (
              <Menu.Item key={label} onClick={() => act(lastIndex.current)}>
                {label}
              </Menu.Item>
            ))}
          </Menu.Dropdown>
        </Menu>
      </div>
      {sheet && <SheetDialog name={name} sheet={sheet} isTime={isTime} onClose={() => setSheet(null)} />}
    </>
  );
}
