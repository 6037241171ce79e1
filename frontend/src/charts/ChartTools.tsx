import { type RefObject, useState } from "react";
import type uPlot from "uplot";
import { ChartMenu } from "@/charts/ChartMenu";
import type { ChartLook } from "@/charts/look";
import type { ChartProps, Range, Sheet } from "@/charts/model";
import { pictureOf } from "@/charts/picture";
import { SheetDialog } from "@/charts/SheetDialog";
import { fileName, save } from "@/charts/save";
import { csvText, isShown, sheetOf } from "@/charts/sheet";
import { placeName } from "@/charts/TipBox";

type Props = {
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
export function ChartTools({ chart, plot, look, onLook, hidden, lastIndex, onCopy, onLink }: Props) {
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
