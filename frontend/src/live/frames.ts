/** Types and parser of the frames on /ws/live, as declared by the server. */

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
export type BeatFrame = Schemas["BeatFrame"];
export type ErrorFrame = Schemas["ErrorFrame"];
export type Frame = SnapshotFrame | DeltaFrame | BeatFrame | ErrorFrame;
export type Message = Schemas["PageMessage"];

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

/** Parse a frame; null for anything else. Unknown frames are not errors. */
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
      topic: typeof raw.topic === "string" ? raw.topic : "",
      code: String(raw.code ?? ""),
      detail: String(raw.detail ?? ""),
    };
  }
  if (typeof raw.topic !== "string" || typeof raw.sequence !== "number") return null;
  const parts = isObject(raw.parts) ? raw.parts : {};
  const series = isObject(raw.series) ? (raw.series as SeriesRows) : {};
  const committed_at = typeof raw.committed_at === "string" ? raw.committed_at : null;
  const common = { topic: raw.topic, sequence: raw.sequence, at: String(raw.at), committed_at, parts, series };
  if (raw.type === "snapshot") return { type: "snapshot", ...common };
  if (raw.type === "delta" && typeof raw.previous === "number") {
    const changes = isObject(raw.changes) ? (raw.changes as Record<string, FieldChange[]>) : {};
    return { type: "delta", previous: raw.previous, changes, ...common };
  }
  return null;
}
