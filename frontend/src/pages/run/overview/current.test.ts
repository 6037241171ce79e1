import { expect, it } from "vitest";
import type { LedgerPart } from "@/api/types";
import { currentOf } from "./current";

const ledger = { fragments: { queued: 24 }, sequences: { queued: 96 } } as unknown as LedgerPart;
const last = { recent_return_mean: 431 };

it("has the quantities that the figures of the kind of run show", () => {
  expect(currentOf({ run: { kind: "fleet" }, ledger, last, speed: 425 })).toEqual({ queue: 24, reward: 431, throughput: 425 });
  expect(currentOf({ run: { kind: "language" }, ledger, last, speed: 2 })).toEqual({ queue: 96, reward: 431 });
  expect(currentOf({ run: { kind: "outside" }, ledger, last: undefined, speed: null })).toEqual({ queue: 96 });
});

it("is unknown while nothing was reported", () => {
  expect(currentOf({ run: { kind: "fleet" }, ledger: undefined, last: undefined, speed: null })).toEqual({
    queue: null,
    reward: null,
    throughput: null,
  });
});
