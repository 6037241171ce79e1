/** The frames on /ws/live, and the state of a topic despite lost, duplicated or reordered ones. Pure. */

import type { components } from "@/api/schema";

type Schemas = components["schemas"];
type Topics = Schemas["LiveTopics"];

/** `run:<name>`, or a deployment-wide topic. */
export type TopicName = `run:${string}` | Exclude<keyof Topics, "run">;
type Contents<T extends TopicName> = Topics[T extends keyof Topics ? T : "run"];
export type PartName<T extends TopicName> = keyof Contents<T>["parts"] & string;
export type PartOf<T extends TopicName, N extends PartName<T>> = Contents<T>["parts"][N];
export type SeriesName<T extends TopicName> = keyof Contents<T>["series"] & string;
export type RowOf<T extends TopicName, N extends SeriesName<T>> = NonNullable<Contents<T>["series"][N]> extends (infer R)[] ? R : never;

/** Shared by all topics: parts by name, and rows with an ascending id. */
export type Row = { id: number } & Record<string, unknown>;
export type Parts = Record<string, unknown>;
export type SeriesRows = Record<string, Row[]>;
/** The path of a changed field from the root of its part, and its new value. */
export type FieldChange = [path: (string | number)[], value: unknown];
type FrameBody = { parts: Parts; series: SeriesRows };

export type SnapshotFrame = Omit<Schemas["SnapshotFrame"], keyof FrameBody> & FrameBody;
export type DeltaFrame = Omit<Schemas["DeltaFrame"], keyof FrameBody | "changes"> & FrameBody & { changes: Record<string, FieldChange[]> };
type BeatFrame = Schemas["BeatFrame"];
export type ErrorFrame = Schemas["ErrorFrame"];
export type Frame = SnapshotFrame | DeltaFrame | BeatFrame | ErrorFrame;
export type Message = Schemas["PageMessage"];

/** Parse a frame; null for anything else. Unknown frames are not errors. */
export function parseFrame(text: string): Frame | null {
  let raw: Record<string, unknown> | null;
  try {
    raw = JSON.parse(text);
  } catch {
    return null;
  }
  const isOfTopic = typeof raw?.topic === "string" && typeof raw.sequence === "number";
  switch (raw?.type) {
    case "beat":
      return typeof raw.at === "string" ? ({ sequences: {}, ...raw } as BeatFrame) : null;
    case "error":
      return { topic: "", code: "", detail: "", ...raw } as ErrorFrame;
    case "snapshot":
      return isOfTopic ? ({ parts: {}, series: {}, ...raw } as SnapshotFrame) : null;
    case "delta":
      return isOfTopic && typeof raw.previous === "number" ? ({ parts: {}, series: {}, changes: {}, ...raw } as DeltaFrame) : null;
    default:
      return null;
  }
}

/** Rows kept per series; the oldest are dropped. */
export const ROWS_KEPT = 5000;

export type TopicState = {
  /** Number of the last applied frame; null if only a snapshot can be applied. */
  sequence: number | null;
  /** Server time of the last applied frame. */
  at: string | null;
  parts: Parts;
  series: SeriesRows;
  error: { code: string; detail: string } | null;
};

export type Step = { state: TopicState; resync: boolean };

export const nothingYet: TopicState = { sequence: null, at: null, parts: {}, series: {}, error: null };

/** Merge rows by id, in ascending order; for duplicates the newer row wins. */
export function mergeRows(old: Row[], fresh: Row[]): Row[] {
  if (fresh.length === 0) return old;
  const last = old.at(-1)?.id ?? -Infinity;
  const rising = fresh.every((row, i) => row.id > (i === 0 ? last : (fresh[i - 1] as Row).id));
  if (rising) return [...old, ...fresh].slice(-ROWS_KEPT);
  const byId = new Map([...old, ...fresh].map((row) => [row.id, row]));
  return [...byId.values()].sort((a, b) => a.id - b.id).slice(-ROWS_KEPT);
}

function mergeSeries(old: SeriesRows, fresh: SeriesRows): SeriesRows {
  const merged = { ...old };
  for (const [name, rows] of Object.entries(fresh)) merged[name] = mergeRows(old[name] ?? [], rows);
  return merged;
}

/** The run that a topic shows; after a reset the same name belongs to another run. */
function subject(parts: Parts): unknown {
  return (parts.run as { id?: unknown } | null | undefined)?.id;
}

/**
 * Apply a snapshot. It replaces everything except rows older than its window, so that a chart
 * keeps its history across reconnects. A late snapshot (older than the current state) is dropped.
 */
export function applySnapshot(state: TopicState, frame: SnapshotFrame): TopicState {
  if (state.sequence !== null && frame.sequence < state.sequence) return state;
  const series: SeriesRows = {};
  const past = subject(state.parts) === subject(frame.parts) ? state.series : {};
  for (const [name, rows] of Object.entries(frame.series)) {
    const first = rows[0]?.id;
    const before = first === undefined ? [] : (past[name] ?? []).filter((row) => row.id < first);
    series[name] = [...before, ...rows].slice(-ROWS_KEPT);
  }
  return { sequence: frame.sequence, at: frame.at, parts: frame.parts, series, error: null };
}

/** A value with another field at a path; parts that did not change stay the same objects. */
function withField(value: unknown, path: (string | number)[], field: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return field;
  if (Array.isArray(value)) return value.map((item, index) => (index === key ? withField(item, rest, field) : item));
  const fields = value as Record<string, unknown>;
  return { ...fields, [key]: withField(fields[key], rest, field) };
}

function changedParts(parts: Parts, changes: Record<string, FieldChange[]>): Parts {
  const changed = { ...parts };
  for (const [name, fields] of Object.entries(changes)) {
    for (const [path, field] of fields) changed[name] = withField(changed[name], path, field);
  }
  return changed;
}

/**
 * Apply a delta if it follows the last frame. Old deltas are dropped. On a gap the state remains
 * unchanged, and the caller requests a snapshot.
 */
export function applyDelta(state: TopicState, frame: DeltaFrame): Step {
  if (state.sequence === null) return { state, resync: false };
  if (frame.sequence <= state.sequence) return { state, resync: false };
  if (frame.previous !== state.sequence) {
    return { state: { ...state, sequence: null }, resync: true };
  }
  return {
    state: {
      sequence: frame.sequence,
      at: frame.at,
      parts: changedParts({ ...state.parts, ...frame.parts }, frame.changes),
      series: mergeSeries(state.series, frame.series),
      error: null,
    },
    resync: false,
  };
}

/** Sequence numbers do not carry over to a new connection: a snapshot must come first. */
export function disconnected(state: TopicState): TopicState {
  return state.sequence === null ? state : { ...state, sequence: null };
}

/** Apply a poll: the newest parts, and rows that may already be present. */
export function applyPoll(state: TopicState, at: string, parts: Parts, series: SeriesRows): TopicState {
  return {
    sequence: null,
    at,
    parts: { ...state.parts, ...parts },
    series: mergeSeries(state.series, series),
    error: null,
  };
}
