/** What the panels of a page have in common, from its address, and the names of their x axes. */

import { useCallbackRef } from "@mantine/hooks";
import { useMemo } from "react";
import type { Span } from "@/api/metrics";
import type { MetricAxis } from "@/api/types";
import { namesOf, spanOf, wordOf } from "@/charts/names";
import type { RunKind } from "@/runs/metricOrder";
import type { Picked, View } from "@/wall/view";
import type { WallView } from "@/wall/Wall";

type Amount = {
  /** The axis in a control. */
  title: string;
  /** One unit of it. */
  unit: string;
};

/** The unit in which runs of these kinds count their data. */
export function amountOf(kinds: readonly RunKind[]): Amount {
  const areFleets = new Set(kinds.map((kind) => kind === "fleet"));
  if (areFleets.size !== 1) return { title: "Data served", unit: "token or env step" };
  return areFleets.has(true) ? { title: "Env steps", unit: "env step" } : { title: "Tokens served", unit: "token" };
}

/** The label of an axis, in the singular. */
export function xLabelOf(axis: MetricAxis, kinds: readonly RunKind[]): string {
  return { step: "train step", time: "time", elapsed: "since the start of the run", amount: amountOf(kinds).unit }[axis];
}

type Options = Pick<WallView, "runs" | "points" | "sync" | "isLive" | "marks" | "places" | "groups"> & {
  kinds: readonly RunKind[];
  view: View;
  /** The axis of the page in an address without one. */
  usual: WallView["axis"];
  /** A range in place of that of the address. */
  moving?: Span;
  change: (more: View) => void;
  /** Whether points can be chosen. */
  isPickable?: boolean;
};

/** The view of a wall; it keeps its identity until something in it changes, so that new values do not render every panel. */
export function useWallView({ kinds, view, usual, moving, change, isPickable, ...rest }: Options): WallView {
  const { x: axis = usual, from, to, smooth = 0, spread, hide } = view;
  // A fixed range does not move.
  const onZoom = useCallbackRef((span: Span | null) => change({ from: span?.from, to: span?.to, last: undefined }));
  const onHide = useCallbackRef((names: readonly string[]) => change({ hide: wordOf(names) }));
  const onPick = useCallbackRef((point: Picked) =>
    change({ pick: point.metric, at: point.to, since: point.from < point.to ? point.from : undefined }),
  );
  const { runs, points, sync, isLive, marks, groups } = rest;
  const places = rest.places && [...rest.places];
  const words = JSON.stringify([runs, kinds, places, groups]);
  return useMemo(
    () => ({
      runs,
      axis,
      xLabel: xLabelOf(axis, kinds),
      span: spanOf({ from, to }) ?? moving,
      points,
      sync,
      isLive,
      marks,
      smooth,
      spread,
      groups,
      places: places && new Map(places),
      hidden: { value: namesOf(hide), change: onHide },
      onZoom,
      onPick: isPickable ? onPick : undefined,
    }),
    [words, axis, from, to, moving, points, sync, isLive, marks, smooth, spread, hide, isPickable, onZoom, onHide, onPick],
  );
}
