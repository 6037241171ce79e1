/** Keep a topic's state correct despite lost, duplicated or reordered frames. Pure: no clock, no socket. */

import type { DeltaFrame, ErrorFrame, FieldChange, Parts, Row, SeriesRows, SnapshotFrame } from "@/live/frames";

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
export function applySnapshot(state: TopicState, frame: SnapshotFrame): Step {
  if (state.sequence !== null && frame.sequence < state.sequence) return { state, resync: false };
  const series: SeriesRows = {};
  const past = subject(state.parts) === subject(frame.parts) ? state.series : {};
  for (const [name, rows] of Object.entries(frame.series)) {
    const first = rows[0]?.id;
    const before = first === undefined ? [] : (past[name] ?? []).filter((row) => row.id < first);
    series[name] = [...before, ...rows].slice(-ROWS_KEPT);
  }
  return {
    state: { sequence: frame.sequence, at: frame.at, parts: frame.parts, series, error: null },
    resync: false,
  };
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

export function applyError(state: TopicState, frame: ErrorFrame): Step {
  return { state: { ...state, error: { code: frame.code, detail: frame.detail } }, resync: false };
}

/** Sequence numbers do not carry over to a new connection: a snapshot must come first. */
export function disconnected(state: TopicState): TopicState {
  return state.sequence === null ? state : { ...state, sequence: null };
}

/** Add older rows of a series, read over REST. */
export function applyBackfill(state: TopicState, name: string, rows: Row[]): TopicState {
  const shown = state.series[name] ?? [];
  const first = shown[0]?.id ?? Infinity;
  const older = rows.filter((row) => row.id < first);
  if (older.length === 0) return state;
  return { ...state, series: { ...state.series, [name]: [...older, ...shown].slice(-ROWS_KEPT) } };
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
