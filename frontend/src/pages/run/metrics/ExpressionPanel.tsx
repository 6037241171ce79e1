import { useInViewport } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { metricLinesQuery } from "@/api/metrics";
import { parsed } from "@/charts/expression";
import { drawn } from "@/charts/lines";
import { runLines } from "@/charts/runLines";
import { ErrorState } from "@/components/ErrorState";
import { visible } from "@/format";
import { evaluated } from "./evaluated";
import { PANEL_POINTS, PanelCard, type PanelProps } from "./PanelCard";

/** One chart of an expression of metrics, a line per run; `expression` begins with `=`. */
export function ExpressionPanel(props: Omit<PanelProps, "run">) {
  const { expression: text, look } = props;
  const { ref, inViewport } = useInViewport<HTMLElement>();
  const { expression, problem } = useMemo(() => parsed(text), [text]);
  const { runs, axis, span, smooth, isLive } = look;
  const names = expression?.names.join(",") ?? "";
  const { data, error, isPending } = useQuery({
    ...metricLinesQuery({ runs, name: names, axis, span, points: PANEL_POINTS, isLive }),
    enabled: inViewport && names !== "",
  });
  const { lines, absent } = useMemo(
    () => (expression && data ? evaluated(expression, runs, data) : { lines: [], absent: [] }),
    [expression, runs, data],
  );
  const shown = useMemo(() => drawn(lines), [lines]);
  const isFailed = error !== null && !data;
  const chart = {
    x: shown.x,
    lines: runLines(
      lines.map(({ run }) => run),
      shown.last,
      { smooth },
    ),
    empty: isPending ? "Loading…" : "No values in this range.",
  };
  const aside = <span className="small soft">{problem ?? (absent.length > 0 && `no samples of ${visible(absent.join(", "))}`)}</span>;
  return (
    <PanelCard {...props} ref={ref} name={visible(text)} aside={aside} chart={inViewport && !problem && !isFailed ? chart : null}>
      {isFailed && <ErrorState title="Chart unavailable" error={error.message} />}
    </PanelCard>
  );
}
