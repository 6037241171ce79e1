/** The controls and the legend of a wall. */

import { ActionIcon, Box, Button, Group, SegmentedControl, Slider, TagsInput, Text } from "@mantine/core";
import { useDisclosure, useMediaQuery } from "@mantine/hooks";
import { Link } from "@tanstack/react-router";
import { X } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";
import type { MetricAxis } from "@/api/types";
import { LegendEntry } from "@/charts/Chart";
import { lineStyleAt } from "@/charts/lineStyles";
import type { Controlled } from "@/charts/model";
import { visible } from "@/format";
import { PANELS_AT_MOST } from "@/wall/panels";
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
    <Box w="9rem" pb={6}>
      <Text size="xs" mb="xs">
        Smoothing {shown > 0 ? shown : "off"}
      </Text>
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
    </Box>
  );
}

/** The controls of a wall; on a narrow screen behind one button, so that the first chart stays in view. */
export function Controls({ aside, children }: { aside: ReactNode; children: ReactNode }) {
  const isNarrow = useMediaQuery("(max-width: 640px)", false, { getInitialValueInEffect: false });
  const [isOpen, { toggle }] = useDisclosure();
  return (
    <Group align="end" gap="sm" mb="sm">
      {isNarrow && (
        <Button size="xs" variant="default" aria-expanded={isOpen} onClick={toggle}>
          Panels and axes
        </Button>
      )}
      {(!isNarrow || isOpen) && children}
      {aside}
    </Group>
  );
}

const NAMES_LISTED = 100;

type PickerProps = {
  /** Metrics to choose from. */
  names: readonly string[];
  chosen: readonly string[];
  onChange: (texts: string[] | undefined) => void;
  /** A remark on a metric in the list. */
  noteOf?: (name: string) => string;
};

/** The chosen panels: metrics, `/regex/` for all metrics that match, and `= expression`. */
export function PanelPicker({ names, chosen, onChange, noteOf }: PickerProps) {
  return (
    <TagsInput
      flex={chosen.length > 0 ? "1 1 100%" : "1 1 14rem"}
      size="xs"
      label="Panels"
      clearable
      splitChars={[]}
      acceptValueOnBlur={false}
      placeholder="metric, /regex/ or = a / b"
      clearButtonProps={{ "aria-label": "Reset to the default panels" }}
      maxTags={PANELS_AT_MOST}
      limit={NAMES_LISTED}
      maxDropdownHeight={320}
      data={[...names]}
      value={[...chosen]}
      renderOption={({ option }) => (
        <Group justify="space-between" flex={1} wrap="nowrap">
          <span className="anywhere">{visible(option.value)}</span>
          <span className="faint tiny nowrap">{noteOf?.(option.value)}</span>
        </Group>
      )}
      onChange={(texts) => onChange(texts.length > 0 ? texts : undefined)}
    />
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
  /** Why the run is not shown. */
  problem?: string;
};
type RunLegendProps = { runs: readonly Entry[]; hidden: Controlled<readonly string[]>; onRemove: (run: string) => void };

/** The one legend of a wall: each run with its style; a click hides or shows its lines in all charts. */
export function RunLegend({ runs, hidden, onRemove }: RunLegendProps) {
  const entries = runs.flatMap(({ name, problem }) => (problem ? [] : [name]));
  return (
    <ul className={css.legend} aria-label="Compared runs">
      {runs.map(({ name, problem }, i) => (
        <li key={name} data-run={name}>
          {problem ? (
            <span className="bad small anywhere">
              {visible(name)}: {visible(problem)}
            </span>
          ) : (
            <>
              <LegendEntry look={lineStyleAt(i)} entry={name} entries={entries} hidden={hidden} aria-label={`Show ${name}`} />
              <Link to="/runs/$name" params={{ name }} data-hidden={hidden.value.includes(name) || undefined}>
                {name}
              </Link>
            </>
          )}
          <ActionIcon size={24} radius="xl" variant="subtle" color="gray" aria-label={`Remove ${name}`} onClick={() => onRemove(name)}>
            <X size={13} aria-hidden="true" />
          </ActionIcon>
        </li>
      ))}
    </ul>
  );
}
