import { describe, expect, it } from "vitest";
import {
  applyDelta,
  applyPoll,
  applySnapshot,
  type DeltaFrame,
  disconnected,
  mergeRows,
  nothingYet,
  parseFrame,
  ROWS_KEPT,
  type Row,
  type SnapshotFrame,
  type TopicState,
} from "@/live/frames";

const row = (id: number): Row => ({ id, value: id * 10 });

const snapshot = (sequence: number, parts = {}, rows: Row[] = []): SnapshotFrame => ({
  type: "snapshot",
  topic: "run:a",
  sequence,
  at: "2026-01-01T00:00:00Z",
  committed_at: null,
  parts,
  series: { episodes: rows },
});

const delta = (previous: number, sequence: number, parts = {}, rows: Row[] = []): DeltaFrame => ({
  ...snapshot(sequence, parts, rows),
  type: "delta",
  previous,
  changes: {},
});

/** A server: one true state, and the frames that led to it. */
function history(length: number): { frames: DeltaFrame[]; truth: (upTo: number) => SnapshotFrame } {
  const frames = Array.from({ length }, (_, i) => delta(i * 3 + 1, i * 3 + 4, { queue: i }, [row(i + 1)]));
  const truth = (upTo: number): SnapshotFrame =>
    snapshot(
      upTo * 3 + 1,
      upTo === 0 ? { queue: -1 } : { queue: upTo - 1 },
      Array.from({ length: upTo }, (_, i) => row(i + 1)),
    );
  return { frames, truth };
}

describe("frames in order", () => {
  it("build the newest parts and complete series", () => {
    let state = applySnapshot(nothingYet, snapshot(1, { queue: 0, run: "x" }, [row(1)]));
    state = applyDelta(state, delta(1, 5, { queue: 7 }, [row(2), row(3)])).state;
    expect(state.parts).toEqual({ queue: 7, run: "x" });
    expect(state.series.episodes?.map((r) => r.id)).toEqual([1, 2, 3]);
    expect(state.sequence).toBe(5);
  });

  it("change single fields and keep the identity of the others", () => {
    const workers = [
      { index: 0, steps: 1 },
      { index: 1, slots: [{ episodes: 3 }] },
    ];
    const before = applySnapshot(nothingYet, snapshot(1, { fleet: { age: 1, workers }, queue: 0 }));
    const changes = {
      fleet: [
        [["workers", 1, "slots", 0, "episodes"], 4],
        [["age"], null],
        [["new"], [2]],
      ],
    } as DeltaFrame["changes"];
    const after = applyDelta(before, { ...delta(1, 2, { queue: 1 }), changes }).state;
    expect(after.parts).toEqual({
      fleet: {
        age: null,
        new: [2],
        workers: [
          { index: 0, steps: 1 },
          { index: 1, slots: [{ episodes: 4 }] },
        ],
      },
      queue: 1,
    });
    expect((after.parts.fleet as { workers: unknown[] }).workers[0]).toBe(workers[0]);
    expect(before.parts.fleet).toEqual({ age: 1, workers });
  });

  it("keep the identity of unchanged parts", () => {
    const fleet = { workers: [] };
    const before = applySnapshot(nothingYet, snapshot(1, { fleet, queue: 0 }));
    const after = applyDelta(before, delta(1, 2, { queue: 1 })).state;
    expect(after.parts.fleet).toBe(fleet);
  });
});

describe("a gap", () => {
  const start = applySnapshot(nothingYet, snapshot(10, { queue: 1 }));

  it("requests a snapshot and ignores the frame after it", () => {
    const { state, resync } = applyDelta(start, delta(12, 13, { queue: 9 }));
    expect(resync).toBe(true);
    expect(state.parts).toEqual({ queue: 1 });
  });

  it("requests one snapshot: further deltas wait", () => {
    const gap = applyDelta(start, delta(12, 13)).state;
    expect(applyDelta(gap, delta(13, 14))).toEqual({ state: gap, resync: false });
  });

  it("ends with the snapshot", () => {
    const gap = applyDelta(start, delta(12, 13)).state;
    const healed = applySnapshot(gap, snapshot(14, { queue: 4 }));
    expect(healed.parts).toEqual({ queue: 4 });
    expect(applyDelta(healed, delta(14, 15, { queue: 5 })).state.parts).toEqual({ queue: 5 });
  });
});

describe("late and duplicate frames", () => {
  const start = applySnapshot(nothingYet, snapshot(10, { queue: 1 }, [row(1)]));

  it("are ignored", () => {
    expect(applyDelta(start, delta(5, 8, { queue: 99 })).state).toBe(start);
    expect(applyDelta(start, delta(8, 10, { queue: 99 }, [row(1)])).state).toBe(start);
    expect(applySnapshot(start, snapshot(7, { queue: 99 }))).toBe(start);
  });
});

describe("after a reconnect", () => {
  it("a snapshot must come first, and charts keep their history", () => {
    const old = applySnapshot(nothingYet, snapshot(10, {}, [row(1), row(2)]));
    const cut = disconnected(old);
    expect(applyDelta(cut, delta(10, 11, { queue: 3 })).state).toBe(cut);
    const back = applySnapshot(cut, snapshot(4, {}, [row(2), row(3)]));
    expect(back.series.episodes?.map((r) => r.id)).toEqual([1, 2, 3]);
  });
});

describe("a reset run name", () => {
  it("shows no data of the previous run", () => {
    const old = applySnapshot(nothingYet, snapshot(10, { run: { id: 1 } }, [row(1), row(2)]));
    const fresh = applySnapshot(old, snapshot(11, { run: { id: 2 } }, [row(3)]));
    expect(fresh.series.episodes?.map((r) => r.id)).toEqual([3]);
  });
});

describe("a socket that drops and reorders a third of its frames", () => {
  /** Numbers from 0 to 1, the same in every run of the test. */
  function* dice(seed: number): Generator<number, never> {
    for (;;) {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      yield seed / 2 ** 31;
    }
  }

  it.each([1, 2, 3, 4, 5, 6, 7, 8])("only shows states that the server had (seed %i)", (seed) => {
    const random = dice(seed);
    const roll = (): number => random.next().value;
    const { frames, truth } = history(200);
    let state: TopicState = applySnapshot(nothingYet, truth(0));
    const late: DeltaFrame[] = [];
    let asked = 0;
    frames.forEach((frame, i) => {
      const chance = roll();
      const arriving: DeltaFrame[] = [];
      if (chance < 0.15) late.push(frame);
      else if (chance >= 0.3) arriving.push(frame);
      if (late.length > 0 && roll() < 0.5) arriving.push(late.shift() as DeltaFrame);
      for (const each of arriving) {
        const step = applyDelta(state, each);
        state = step.state;
        if (step.resync) {
          asked += 1;
          state = applySnapshot(state, truth(i + 1));
        }
      }
      const shown = ((state.sequence ?? 1) - 1) / 3;
      expect(state.parts).toEqual(truth(shown).parts);
      expect(state.series.episodes).toEqual(truth(shown).series.episodes);
    });
    expect(asked).toBeGreaterThan(0);
    state = applySnapshot(state, truth(200));
    expect(state.series.episodes).toHaveLength(200);
  });
});

describe("rows", () => {
  it("are merged by id, in order and without duplicates", () => {
    expect(mergeRows([row(1), row(3)], [row(3), row(2)]).map((r) => r.id)).toEqual([1, 2, 3]);
  });
  it("are bounded", () => {
    const many = Array.from({ length: ROWS_KEPT + 50 }, (_, i) => row(i));
    expect(mergeRows([], many)).toHaveLength(ROWS_KEPT);
    expect(mergeRows([], many).at(-1)?.id).toBe(ROWS_KEPT + 49);
  });
});

it("polling adds rows without waiting for deltas", () => {
  const state = applyPoll(
    applySnapshot(nothingYet, snapshot(3, { run: 1, fleet: 2 }, [row(1)])),
    "t",
    { run: 5 },
    { episodes: [row(1), row(2)] },
  );
  expect(state.parts).toEqual({ run: 5, fleet: 2 });
  expect(state.series.episodes).toHaveLength(2);
  expect(state.sequence).toBeNull();
});

describe("socket messages", () => {
  it("are ignored if they are not frames", () => {
    for (const text of ["", "[]", "{", '{"type":"snapshot"}', '{"type":"delta","topic":"x","sequence":1}', "null"]) {
      expect(parseFrame(text)).toBeNull();
    }
  });
  it("are parsed if they are frames", () => {
    expect(parseFrame(JSON.stringify(delta(1, 2)))).toEqual(delta(1, 2));
    expect(parseFrame('{"type":"beat","at":"t"}')).toEqual({ type: "beat", at: "t", sequences: {} });
    expect(parseFrame('{"type":"error","topic":"run:x","code":"not_found","detail":"d"}')).toMatchObject({ code: "not_found" });
  });
});
