import { expect, it } from "vitest";
import type { LedgerPart } from "@/api/types";
import { queuedFigure } from "@/runs/queued";

const ledger = { fragments: { queued: 8 }, sequences: { queued: 1024 } } as LedgerPart;
const queue = {
  queued: 128,
  waiting: 0,
  leased: 2,
  threshold: 96,
  batch_size: 32,
  served_steps: 1,
};

it("counts the queue in the threshold's unit", () => {
  expect(queuedFigure({ kind: "outside" }, queue, ledger)).toEqual({ value: 1024, unit: "sequences, threshold 96" });
  expect(queuedFigure({ kind: "language" }, queue, ledger)).toEqual({ value: 1024, unit: "sequences, threshold 96" });
  expect(queuedFigure({ kind: "fleet" }, queue, ledger)).toEqual({ value: 8, unit: "fragments, threshold 96" });
});

it("shows no unknown counts", () => {
  expect(queuedFigure({ kind: "outside" }, queue, undefined).value).toBeUndefined();
  expect(queuedFigure({ kind: "outside" }, undefined, undefined)).toEqual({ value: undefined, unit: "sequences" });
});
