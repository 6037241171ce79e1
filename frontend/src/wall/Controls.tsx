/** The controls and the legend of a wall. */

import { ActionIcon, Button, SegmentedControl, Slider, Stack, Text, TextInput, VisuallyHidden } from "@mantine/core";
import { useDisclosure, useMediaQuery } from "@mantine/hooks";
import { Link } from "@tanstack/react-router";
import { Focus, X } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";
import type { MetricAxis, RunStatus } from "@/api/types";
import chart from "@/charts/chart.module.css";
import { lineStyleAt, Swatch, styleText } from "@/charts/lineStyles";
import type { Controlled } from "@/charts/model";
import { isolated, toggled } from "@/charts/names";
import { visible } from "@/format";
import { lookOf } from "@/theme/chips";
import { PANELS_AT_MOST, problemOf, sourceOf } from "@/wall/panels";
import { UNPICKED, UNZOOMED, type View } from "@/wall/view";
import css from "./wall.module.css";

const STEP = 0.01;
/** Weight from which older samples would outweigh all visible ones. */
export const MOST_SMOOTHING = 0.99;

type Props = {
  /** Weight of the moving average, 0 for none. */
  value: number;
  onChange: (weight: number) => void;
};

/** The weight of the exponential moving average of all charts of a page. */
export function Smoothing({ value, onChange }: Props) {
  const [shown, setShown] = useState(value);
  useEffect(() => setShown(value), [value]);
  return (
    <Stack gap="xs" w="9rem" pb="xs">
      <Text size="xs">Smoothing {shown > 0 ? shown : "off"}</Text>
      <Slider
        size="sm"
        min={0}
        max={MOST_SMOOTHING}
        step={STEP}
        label={null}
        thumbLabel="Smoothing"
        value={shown}
        onChange={setShown}
        onChangeEnd={onChange}
      />
    </Stack>
  );
}

/** The controls of a wall; on a narrow screen behind one button, so that the first chart stays in view. */
export function Controls({ aside, children }: { aside: ReactNode; children: ReactNode }) {
  const isNarrow = useMediaQuery("(max-width: 640px)", false, { getInitialValueInEffect: false });
  const [isOpen, { toggle }] = useDisclosure();
  return (
    <div className={css.controls}>
      {isNarrow && (
        <Button size="xs" variant="default" aria-expanded={isOpen} onClick={toggle}>
          Panels and axes
        </Button>
      )}
      {(!isNarrow || isOpen) && children}
      {aside}
    </div>
  );
}

/** Add a panel of all metrics that match a regular expression, of an expression of metrics, or of one metric. */
export function NewPanel({ charts, onAdd }: { charts: readonly string[]; onAdd: (text: string) => void }) {
  const [text, setText] = useState("");
  const problem = problemOf(sourceOf(text));
  const isFull = charts.length >= PANELS_AT_MOST;
  const add = () => {
    if (!text || problem || isFull) return;
    onAdd(text);
    setText("");
  };
  return (
    <form
      className={css.newPanel}
      onSubmit={(event) => {
        event.preventDefault();
        add();
      }}
    >
      <TextInput
        size="xs"
        label="Panel"
        placeholder="/regex/ or = a / b"
        maxLength={200}
        spellCheck={false}
        value={text}
        error={text ? problem : undefined}
        onChange={(event) => setText(event.currentTarget.value)}
      />
      <Button
        type="submit"
        size="xs"
        variant="default"
        disabled={!text || problem !== null || isFull}
        title={isFull ? `At most ${PANELS_AT_MOST}` : undefined}
      >
        Add
      </Button>
    </form>
  );
}

type ControlsProps = {
  view: View;
  axis: MetricAxis;
  /** The axis of the page in an address without one. */
  usual: MetricAxis;
  axes: readonly MetricAxis[];
  /** The amount of data that the runs serve. */
  amount: string;
  title?: string;
  change: (more: View) => void;
  onReset?: () => void;
  /** Controls of the time range, while the whole run is shown. */
  children?: ReactNode;
};

/** The axis, range and smoothing of all panels of a page. */
export function AxisControls({ view, axis, usual, axes, amount, title, change, onReset, children }: ControlsProps) {
  const labels = { step: "Train steps", elapsed: "Since start", time: "Time", amount };
  const choose = (x: MetricAxis) => change({ x: x === usual ? undefined : x, last: undefined, ...UNZOOMED, ...UNPICKED });
  return (
    <>
      {children}
      <Smoothing value={view.smooth ?? 0} onChange={(smooth) => change({ smooth: smooth || undefined })} />
      <SegmentedControl
        size="xs"
        data={axes.map((value) => ({ value, label: labels[value] }))}
        value={axis}
        aria-label="Horizontal axis"
        title={title}
        onChange={choose}
      />
      {onReset && (
        <Button size="xs" variant="default" onClick={onReset} title="Show the default panels and axes, and forget this choice">
          Reset to defaults
        </Button>
      )}
      {view.from !== undefined && (
        <Button size="xs" variant="default" onClick={() => change(UNZOOMED)}>
          Reset zoom
        </Button>
      )}
    </>
  );
}

type Entry = {
  name: string;
  status?: RunStatus;
  /** Why the run is not shown. */
  problem?: string;
  /** Whether the run is that of the page, which cannot be removed. */
  isFixed?: boolean;
};
type RunLegendProps = { runs: readonly Entry[]; hidden: Controlled<readonly string[]>; onRemove: (run: string) => void };

/** The one legend of a wall: each run with its style; a click hides or shows its lines in all charts. */
export function RunLegend({ runs, hidden, onRemove }: RunLegendProps) {
  const names = runs.filter(({ problem }) => !problem).map(({ name }) => name);
  const isAlone = (name: string) => names.length > 1 && isolated(names, hidden.value, name).length === 0;
  const icon = { size: 24, radius: "xl", variant: "subtle", color: "gray" } as const;
  return (
    <ul className={css.legend} aria-label="Compared runs">
      {runs.map(({ name, status, problem, isFixed }, i) => (
        <li key={name} data-run={name}>
          {problem ? (
            <span className="bad small anywhere">
              {visible(name)}: {visible(problem)}
            </span>
          ) : (
            <>
              <button
                type="button"
                className={chart.entry}
                aria-pressed={!hidden.value.includes(name)}
                aria-label={`Show ${name}`}
                title={`${styleText(lineStyleAt(i))}. Click to hide or show.`}
                onClick={() => hidden.change(toggled(hidden.value, name))}
              >
                <Swatch look={lineStyleAt(i)} />
              </button>
              <Link to="/runs/$name" params={{ name }} data-hidden={hidden.value.includes(name) || undefined}>
                {name}
              </Link>
              {status && (
                <span
                  className={css.state}
                  style={{ color: `var(--${lookOf(status).tone})` }}
                  title={`${status}. ${lookOf(status).meaning}`}
                >
                  <span aria-hidden="true">{lookOf(status).sign}</span>
                  <VisuallyHidden>{status}</VisuallyHidden>
                </span>
              )}
              {names.length > 1 && (
                <ActionIcon
                  {...icon}
                  aria-label={`Show only ${name}`}
                  aria-pressed={isAlone(name)}
                  title={isAlone(name) ? "Show all runs" : "Show this run alone"}
                  onClick={() => hidden.change(isolated(names, hidden.value, name))}
                >
                  <Focus size={13} aria-hidden="true" />
                </ActionIcon>
              )}
            </>
          )}
          {!isFixed && (
            <ActionIcon {...icon} aria-label={`Remove ${name}`} onClick={() => onRemove(name)}>
              <X size={13} aria-hidden="true" />
            </ActionIcon>
          )}
        </li>
      ))}
    </ul>
  );
}
