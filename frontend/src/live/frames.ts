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
