import { Button, SegmentedControl, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useState } from "react";
import type { MetricAxis, RunDetail } from "@/api/types";
import { parsed } from "@/charts/expression";
import { Smoothing } from "@/charts/Smoothing";
import { Layouts } from "./Layouts";
import classes from "./metrics.module.css";
import { type MetricsSearch, PANELS_AT_MOST, UNPICKED } from "./search";
import { matched } from "./tree";

const TYPING_MS = 250;

type Props = {
  run: RunDetail;
  search: MetricsSearch;
  change: (more: Partial<MetricsSearch>) => void;
  /** Changes the address without remembering the choice. */
  apply: (more: Partial<MetricsSearch>) => void;
  /** Absent while the defaults are shown. */
  onReset?: () => void;
  amount: string;
  marks: number;
  onMarks: () => void;
};

/** The error of the text of a new panel; null if it is valid. */
const problemOf = (text: string): string | null => (text.startsWith("=") ? parsed(text).problem : matched([], text).problem);

/** Add a chart of all metrics that match a regular expression, or of an expression of metrics. */
function NewPanel({ panels, onAdd }: { panels: readonly string[]; onAdd: (expression: string) => void }) {
  const [expression, setExpression] = useState("");
  const problem = problemOf(expression);
  const isFull = panels.length >= PANELS_AT_MOST;
  const add = () => {
    if (!expression || problem || isFull) return;
    onAdd(expression);
    setExpression("");
  };
  return (
    <form
      className={classes.newPanel}
      onSubmit={(event) => {
        event.preventDefault();
        add();
      }}
    >
      <TextInput
        size="xs"
        label="Panel: /regex/ or = a / b"
        placeholder="^layer/.*norm$"
        maxLength={200}
        spellCheck={false}
        value={expression}
        error={expression ? problem : undefined}
        onChange={(event) => setExpression(event.currentTarget.value)}
      />
      <Button
        type="submit"
        size="xs"
        variant="default"
        disabled={!expression || problem !== null || isFull}
        title={isFull ? `At most ${PANELS_AT_MOST}` : undefined}
      >
        Add
      </Button>
    </form>
  );
}

/** Controls of the metrics tab: filter, axis, range, smoothing. */
export function Bar({ run, search, change, apply, onReset, amount, marks, onMarks }: Props) {
  const find = useDebouncedCallback((q: string) => change({ q: q || undefined }), TYPING_MS);
  const beside = useDebouncedCallback((runs: string) => change({ with: runs || undefined }), TYPING_MS);
  const axes = [
    { value: "step", label: "Train steps" },
    { value: "elapsed", label: "Since start" },
    { value: "time", label: "Time" },
    { value: "amount", label: amount },
  ];
  const unzoomed = { from: undefined, to: undefined };
  const panels = search.panels ?? [];
  return (
    <div className={classes.bar}>
      <TextInput
        key={`q ${search.layout}`}
        data-filter
        className={classes.search}
        size="xs"
        label="Find metrics"
        placeholder="loss, grad norm …"
        defaultValue={search.q}
        onChange={(event) => find(event.currentTarget.value)}
      />
      <NewPanel panels={panels} onAdd={(expression) => change({ panels: [...new Set([...panels, expression])] })} />
      <TextInput
        className={classes.narrow}
        size="xs"
        label="Compare with"
        placeholder="run-a, run-b"
        defaultValue={search.with}
        onChange={(event) => beside(event.currentTarget.value)}
      />
      <Smoothing value={search.smooth ?? 0} onChange={(smooth) => change({ smooth: smooth || undefined })} />
      <SegmentedControl
        size="xs"
        data={axes}
        value={search.x ?? "step"}
        aria-label="Horizontal axis"
        onChange={(x) => change({ x: x as MetricAxis, ...unzoomed, ...UNPICKED })}
      />
      <Layouts run={run} search={search} change={change} apply={apply} />
      <Button size="xs" variant="default" onClick={onMarks} title="Annotations on the charts">
        {marks > 0 ? `Annotations (${marks})` : "Annotations"}
      </Button>
      {onReset && (
        <Button size="xs" variant="default" onClick={onReset} title="Unpin all metrics, remove panels, and forget this choice">
          Reset to defaults
        </Button>
      )}
      {search.from !== undefined && (
        <Button size="xs" variant="default" onClick={() => change(unzoomed)}>
          Reset zoom
        </Button>
      )}
    </div>
  );
}
