import { useInViewport } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { metricNamesOfQuery, namedLinesQuery } from "@/api/metrics";
import { bucketSheet, drawn } from "@/charts/lines";
import { runLines } from "@/charts/runLines";
import { counted, number, visible } from "@/format";
import { useAlertWhen } from "@/pages/alerts/rules/useAlertWhen";
import { PANEL_POINTS, PanelCard, type PanelProps } from "./PanelCard";
import { matched } from "./tree";

/** Maximum number of entries in the chart's alert menu. */
const WATCHED_AT_MOST = 8;

function howMany(shown: number, total: number): string {
  return total > shown ? `first ${number(shown)} of ${number(total)} matching metrics` : counted(total, "metric matches", "metrics match");
}

/** One chart of all metrics whose name matches an expression. */
export function RegexPanel(props: PanelProps) {
  const { run, expression, look } = props;
  const { ref, inViewport } = useInViewport<HTMLElement>();
  const { data: known = [], isPending } = useQuery(metricNamesOfQuery(run));
  const { names, total, problem } = useMemo(() => matched(known, expression), [known, expression]);
  const { axis, span, smooth, isLive } = look;
  const { data: lines = [] } = useQuery({
    ...namedLinesQuery({ run, names, axis, span, points: PANEL_POINTS, isLive }),
    enabled: inViewport && names.length > 0,
  });
  const shown = useMemo(() => drawn(lines), [lines]);
  const { actions, dialog } = useAlertWhen(
    lines.slice(0, WATCHED_AT_MOST).map((line, i) => ({
      metric: line.name,
      run,
      label: visible(line.name),
      valueAt: (index: number | null) => (index === null ? line.last.findLast((one) => typeof one === "number") : shown.last[i]?.[index]),
    })),
  );
  const chart = {
    x: shown.x,
    lines: runLines(
      lines.map((line) => visible(line.name)),
      shown.last,
      { smooth },
    ),
    actions,
    sheet: () => bucketSheet(lines, axis),
    hasLegend: true,
    empty: isPending ? "Loading…" : total === 0 ? "No matching metrics." : "No samples in this range.",
  };
  const aside = (
    <span className="small soft" data-matched={total}>
      {problem ?? howMany(names.length, total)}
    </span>
  );
  return (
    <PanelCard {...props} ref={ref} name={`/${visible(expression)}/`} aside={aside} chart={inViewport && !problem ? chart : null}>
      {dialog}
    </PanelCard>
  );
}
