import { expect, it } from "vitest";
import type { LedgerPart } from "@/api/types";
import { queuedFigure } from "./queued";

const queue = {
  queued: 128,
  queued_sequences: 1024,
  waiting: 0,
  leased: 2,
  threshold: 96,
  batch_size: 32,
  leased_sequences: 32,
  served_steps: 1,
};

it("counts the queue in the threshold's unit", () => {
  expect(queuedFigure({ kind: "outside" }, queue, undefined)).toEqual({ value: 1024, unit: "sequences, threshold 96" });
  expect(queuedFigure({ kind: "language" }, queue, undefined)).toEqual({ value: 1024, unit: "sequences, threshold 96" });
  expect(queuedFigure({ kind: "fleet" }, { ...queue, queued: 8 }, undefined)).toEqual({ value: 8, unit: "fragments, threshold 96" });
});

it("shows no unknown counts", () => {
  const { queued_sequences: _, ...polled } = queue;
  expect(queuedFigure({ kind: "outside" }, polled, undefined).value).toBeUndefined();
  expect(queuedFigure({ kind: "outside" }, undefined, undefined)).toEqual({ value: undefined, unit: "sequences" });
});

it("uses the count of the page's ledger", () => {
  const ledger = { fragments: { queued: 16 } } as LedgerPart;
  expect(queuedFigure({ kind: "fleet" }, { ...queue, queued: 8 }, ledger).value).toBe(16);
});
