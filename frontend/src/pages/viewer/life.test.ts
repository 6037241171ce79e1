import { describe, expect, it } from "vitest";
import type { GroupDetail, SequenceSummary } from "@/api/groups";
import { eventsOf, lanesOf, madeIn, namesOf, phasesOf } from "@/pages/viewer/life";

const at = (second: number) => new Date(1_800_000_000_000 + second * 1000).toISOString();
const BATCH = {
  id: "b",
  step: 4,
  state: "confirmed",
  trainer: "t0",
  policy_step: 3,
  epoch: 1,
  staleness: 1,
  leased_at: at(20),
  lease_expires_at: at(90),
  lease_expiries: 1,
  delivered_at: at(21),
  settled_at: at(30),
};
const detail = (group: object, batch: object | null) =>
  ({
    group: { id: 1, state: "served", drop_reason: "", has_bytes: true, producer: "env:gsm8k_0", received_at: at(10), ...group },
    batch,
    version: { id: 1, epoch: 1, step: 2, published_at: at(1), sha256: "" },
  }) as unknown as GroupDetail;
const made = (...spans: [string, number, number][]) =>
  ({ spans: spans.map(([name, start, end]) => ({ name, start, end })) }) as unknown as SequenceSummary;
const TOLD = [
  made(["generate", 1_800_000_002, 1_800_000_004], ["reward", 1_800_000_004, 1_800_000_005]),
  made(["generate", 1_800_000_003, 1_800_000_006]),
];

describe("the lifecycle of a group", () => {
  it("lists events in order", () => {
    expect(eventsOf(detail({}, BATCH), TOLD).map(({ what, at: when }) => [what, Date.parse(when) / 1000 - 1_800_000_000])).toEqual([
      ["Weights published", 1],
      ["Generation started", 2],
      ["Generation finished", 6],
      ["Received and stored", 10],
      ["Leased to t0", 20],
      ["Delivered", 21],
      ["Acknowledged", 30],
    ]);
  });
  it("has contiguous phases", () => {
    const parts = phasesOf(detail({}, BATCH), TOLD, 0);
    expect(parts.map(({ name, from, to }) => [name, (to - from) / 1000])).toEqual([
      ["made", 4],
      ["in transit", 4],
      ["queued", 10],
      ["leased", 10],
    ]);
    expect(parts.slice(1).every(({ from }, i) => from === parts[i]?.to)).toBe(true);
  });
  it("continues while queued or leased", () => {
    const now = Date.parse(at(40));
    expect(phasesOf(detail({ state: "queued" }, null), [], now)).toEqual([
      { name: "queued", from: Date.parse(at(10)), to: now, isOpen: true },
    ]);
    expect(phasesOf(detail({ state: "leased" }, { ...BATCH, state: "leased", settled_at: null }), [], now).at(-1)).toMatchObject({
      name: "leased",
      to: now,
      isOpen: true,
    });
  });
  it("omits unknown times", () => {
    expect(madeIn([made(["generate", 0, 4])])).toBeNull();
    expect(eventsOf(detail({ state: "dropped", has_bytes: false, drop_reason: "zero_variance" }, null), []).at(-1)).toMatchObject({
      note: "dropped on receipt: zero variance",
      tone: "bad",
    });
  });
});

it("separates overlapping spans and lists the longest names first", () => {
  const [one] = [made(["a", 0, 4], ["b", 1, 2], ["c", 2, 3], ["d", 4, 5])];
  expect(lanesOf(one?.spans ?? []).map(({ lane }) => lane)).toEqual([0, 1, 1, 0]);
  expect(namesOf(TOLD).map(({ name }) => name)).toEqual(["generate", "reward"]);
});
