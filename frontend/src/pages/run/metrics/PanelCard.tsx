import { ActionIcon } from "@mantine/core";
import { X } from "lucide-react";
import type { ReactNode, Ref } from "react";
import type { Span } from "@/api/metrics";
import { Chart } from "@/charts/Chart";
import type { Controlled } from "@/charts/controllableState";
import type { ChartProps, Mark } from "@/charts/model";
import { chartTarget } from "@/share/share";
import type { Look } from "./MetricCard";
import classes from "./metrics.module.css";

/** Other than that of charts of one metric, so that a failed request concerns a panel only. */
export const PANEL_POINTS = 400;
const CHART_HEIGHT = 260;

export type PanelProps = {
  run: string;
  /** Text of the panel in the address: a regular expression, or an expression of metrics behind `=`. */
  expression: string;
  look: Look;
  marks: readonly Mark[];
  isLog: Controlled<boolean>;
  onZoom: (span: Span | null) => void;
  onRemove: () => void;
};

type Props = Omit<PanelProps, "run"> & {
  ref: Ref<HTMLElement>;
  name: string;
  aside: ReactNode;
  /** The chart; null while it is not on screen or has an error. */
  chart: (Pick<ChartProps, "x" | "lines" | "empty"> & Partial<ChartProps>) | null;
  children?: ReactNode;
};

/** The card of a panel that a user added: its name, a button that removes it, and one chart. */
export function PanelCard({ ref, name, expression, aside, look, marks, isLog, onZoom, onRemove, chart, children }: Props) {
  return (
    <section
      ref={ref}
      className={`panel ${classes.card} ${classes.wide}`}
      aria-label={name}
      data-panel={expression}
      data-target={chartTarget(name)}
    >
      <div className={classes.head}>
        <h3>{name}</h3>
        <span className="spacer" />
        {aside}
        <ActionIcon size={22} variant="subtle" color="gray" aria-label={`Remove panel ${name}`} onClick={onRemove}>
          <X size={14} aria-hidden="true" />
        </ActionIcon>
      </div>
      {chart && (
        <Chart
          name={name}
          target={chartTarget(name)}
          isTime={look.axis === "time"}
          isDuration={look.axis === "elapsed"}
          xLabel={look.xLabel}
          height={CHART_HEIGHT}
          sync="metrics"
          onZoom={onZoom}
          marks={marks}
          isLog={isLog}
          {...chart}
        />
      )}
      {children}
    </section>
  );
}
