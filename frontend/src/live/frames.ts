/** Shape what travels over /ws/live. */

export type Row = { id: number } & Record<string, unknown>;
export type Parts = Record<string, unknown>;
export type SeriesRows = Record<string, Row[]>;

export type SnapshotFrame = {
  type: "snapshot";
  topic: string;
  sequence: number;
  at: string;
  parts: Parts;
  series: SeriesRows;
};

export type DeltaFrame = {
  type: "delta";
  topic: string;
  previous: number;
  sequence: number;
  at: string;
  parts: Parts;
  series: SeriesRows;
};

export type ErrorFrame = { type: "error"; topic?: string; code: string; detail: string };
export type BeatFrame = {
  type: "beat";
  at: string;
  /** Number of the last frame that was sent of each topic; a page that has less has lost one. */
  sequences: Record<string, number | null>;
};
export type Frame = SnapshotFrame | DeltaFrame | ErrorFrame | BeatFrame;

export type Message =
  | { type: "subscribe" | "unsubscribe" | "resync"; topic: string }
  | { type: "visible"; visible: boolean };

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Return the frame that `text` is, or null for anything else; unknown frames are not errors. */
export function parseFrame(text: string): Frame | null {
  let raw: unknown;
  try {
    raw = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isObject(raw)) return null;
  if (raw.type === "beat" && typeof raw.at === "string") {
    const sequences = isObject(raw.sequences) ? (raw.sequences as Record<string, number | null>) : {};
    return { type: "beat", at: raw.at, sequences };
  }
  if (raw.type === "error") {
    return {
      type: "error",
      topic: typeof raw.topic === "string" ? raw.topic : undefined,
      code: String(raw.code),
      detail: String(raw.detail ?? ""),
    };
  }
  if (typeof raw.topic !== "string" || typeof raw.sequence !== "number") return null;
  const parts = isObject(raw.parts) ? raw.parts : {};
  const series = isObject(raw.series) ? (raw.series as SeriesRows) : {};
  const common = { topic: raw.topic, sequence: raw.sequence, at: String(raw.at), parts, series };
  if (raw.type === "snapshot") return { type: "snapshot", ...common };
  if (raw.type === "delta" && typeof raw.previous === "number") {
    return { type: "delta", previous: raw.previous, ...common };
  }
  return null;
}
