import { expect, it } from "vitest";
import type { RunEvent } from "@/api/types";
import { fold } from "./folding";

const event = (id: number, kind: string, extra: Partial<RunEvent> = {}): RunEvent => ({
  id,
  kind,
  at: `t${id}`,
  level: "info",
  actor: "a",
  message: `${kind} ${id}`,
  reason: "",
  details: {},
  request_id: "",
  ...extra,
});

it("combines repeated events, newest first", () => {
  const folded = fold([event(1, "started"), event(2, "weights"), event(3, "weights"), event(4, "weights")]);
  expect(folded.map(({ event: e, times, firstAt }) => [e.id, times, firstAt])).toEqual([
    [4, 3, "t2"],
    [1, 1, "t1"],
  ]);
});

it("never hides warnings, reasons or other actors", () => {
  const events = [event(1, "x"), event(2, "x", { level: "warning" }), event(3, "x", { reason: "why" }), event(4, "x", { actor: "b" })];
  expect(fold(events)).toHaveLength(4);
});
