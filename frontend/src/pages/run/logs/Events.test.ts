import { expect, it } from "vitest";
import type { RunEvent } from "@/api/types";
import { fold } from "./Events";

const event = (id: number, message: string, fields: Partial<RunEvent> = {}) =>
  ({
    id,
    at: `2026-03-01T12:00:0${id}Z`,
    kind: "retention",
    level: "info",
    actor: "retention",
    message,
    reason: "",
    details: {},
    ...fields,
  }) as RunEvent;

it("combines adjacent events that differ in numbers only", () => {
  const events = [event(4, "removed 31 items"), event(3, "removed 7 items"), event(2, "paused"), event(1, "removed 2 items")];
  expect(fold(events).map(({ event, times, firstAt }) => [event.id, times, firstAt.slice(-3)])).toEqual([
    [4, 2, "03Z"],
    [2, 1, "02Z"],
    [1, 1, "01Z"],
  ]);
});

it("keeps events apart that need attention or are explained", () => {
  const events = [event(4, "a", { level: "warning" }), event(3, "a", { level: "warning" }), event(2, "a", { reason: "b" }), event(1, "a")];
  expect(fold(events)).toHaveLength(4);
});
