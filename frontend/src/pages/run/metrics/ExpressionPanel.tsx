import { useInViewport } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { metricLinesQuery } from "@/api/metrics";
import { Chart } from "@/charts/Chart";
import { parsed } from "@/charts/expression";
import { drawn } from "@/charts/lines";
import { runLines } from "@/charts/runLines";
import { ErrorState } from "@/components/ErrorState";
import { visible } from "@/format";
import { chartTarget } from "@/share/share";
import { evaluated } from "./evaluated";
import classes from "./metrics.module.css";
import { type PanelProps, RemovePanel } from "./RegexPanel";

/** Other than that of charts of one metric, so that a failed request concerns this panel only. */
const POINTS = 400;
const CHART_HEIGHT = 260;

/** One chart of an expression of metrics, a line per run; `expression` begins with `=`. */
export function ExpressionPanel({ expression: text, look, marks, isLog, onZoom, onRemove }: Omit<PanelProps, "run">) {
  const { ref, inViewport } = useInViewport<HTMLElement>();
  const { expression, problem } = useMemo(() => parsed(text), [text]);
  const { runs, axis, span, smooth, isLive, xLabel } = look;
  const names = expression?.names.join(",") ?? "";
  const { data, error, isPending } = useQuery({
    ...metricLinesQuery({ runs, name: names, axis, span, points: POINTS, isLive }),
    enabled: inViewport && names !== "",
  });
  const { lines, absent } = useMemo(
    () => (expression && data ? evaluated(expression, runs, data) : { lines: [], absent: [] }),
    [expression, runs, data],
  );
  const shown = useMemo(() => drawn(lines), [lines]);
  const name = visible(text);
  return (
    <section
      ref={ref}
      className={`panel ${classes.card} ${classes.wide}`}
      aria-label={name}
      data-panel={text}
      data-target={chartTarget(name)}
    >
      <div className={classes.head}>
        <h3>{name}</h3>
        <span className="spacer" />
        <span className="small soft">{problem ?? (absent.length > 0 && `no samples of ${visible(absent.join(", "))}`)}</span>
        <RemovePanel name={name} onRemove={onRemove} />
      </div>
      {error && !data && <ErrorState title="Chart unavailable" error={error.message} />}
      {inViewport && !problem && !(error && !data) && (
        <Chart
          name={name}
          target={chartTarget(name)}
          x={shown.x}
          isTime={axis === "time"}
          isDuration={axis === "elapsed"}
          xLabel={xLabel}
          lines={runLines(
            lines.map(({ run }) => run),
            shown.last,
            { smooth },
          )}
          height={CHART_HEIGHT}
          sync="metrics"
          onZoom={onZoom}
          marks={marks}
          isLog={isLog}
          empty={isPending ? "Loading…" : "No values in this range."}
        />
      )}
    </section>
  );
}
