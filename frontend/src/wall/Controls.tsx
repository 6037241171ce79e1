import { Button, SegmentedControl, TextInput } from "@mantine/core";
import { useDisclosure, useMediaQuery } from "@mantine/hooks";
import { type ReactNode, useState } from "react";
import type { MetricAxis } from "@/api/types";
import { Smoothing } from "@/charts/Smoothing";
import { PANELS_AT_MOST, problemOf, sourceOf } from "@/wall/panels";
import { UNPICKED, UNZOOMED, type View } from "@/wall/view";
import css from "./wall.module.css";

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

type Props = {
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
export function AxisControls({ view, axis, usual, axes, amount, title, change, onReset, children }: Props) {
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
