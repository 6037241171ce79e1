import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { LiveConnection, type PollAnswer, type Socket } from "./connection";

class Wire implements Socket {
  readyState: 0 | 1 | 3 = 0;
  sent: Record<string, unknown>[] = [];
  onopen: (() => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  send(text: string): void {
    this.sent.push(JSON.parse(text) as Record<string, unknown>);
  }
  close(code = 1006): void {
    this.readyState = 3;
    this.onclose?.({ code });
  }
  accept(): void {
    this.readyState = 1;
    this.onopen?.();
  }
  frame(frame: Record<string, unknown>): void {
    this.onmessage?.({ data: JSON.stringify({ at: new Date(Date.now()).toISOString(), ...frame }) });
  }
}

let wires: Wire[];
let polls: string[];
let signedOut: number;
let live: LiveConnection;
const last = (): Wire => wires.at(-1) as Wire;
const poll = async (topic: string): Promise<PollAnswer> => {
  polls.push(topic);
  return { parts: { run: "polled" }, series: {} };
};

beforeEach(() => {
  vi.useFakeTimers();
  wires = [];
  polls = [];
  signedOut = 0;
  const onSignedOut = () => void (signedOut += 1);
  const open = (): Socket => {
    wires.push(new Wire());
    return last();
  };
  live = new LiveConnection({ open, poll, now: () => Date.now(), random: () => 1, isHidden: () => false, onSignedOut });
  live.start();
});
afterEach(() => {
  live.stop();
  vi.useRealTimers();
});

const snapshot = { type: "snapshot", topic: "run:a", sequence: 1, parts: { run: 1 }, series: {} };
const delta = (previous: number, sequence: number) => ({
  type: "delta", topic: "run:a", previous, sequence, parts: { run: sequence }, series: {},
});

describe("one socket", () => {
  it("subscribes when it opens, once for a topic with two watchers", () => {
    const first = live.watch("run:a", () => {});
    live.watch("run:a", () => {});
    last().accept();
    expect(last().sent).toEqual([{ type: "subscribe", topic: "run:a" }]);
    first();
    expect(last().sent).toHaveLength(1);
  });

  it("unsubscribes with the last watcher", () => {
    const leave = live.watch("run:a", () => {});
    last().accept();
    leave();
    expect(last().sent.at(-1)).toEqual({ type: "unsubscribe", topic: "run:a" });
  });

  it("learns from a beat that the last frame of a quiet topic was lost", () => {
    live.watch("run:a", () => {});
    last().accept();
    last().frame(snapshot);
    last().frame({ type: "beat", sequences: { "run:a": 1, "run:other": 9 } });
    expect(last().sent).toHaveLength(1);
    last().frame({ type: "beat", sequences: { "run:a": 2 } });
    expect(last().sent.at(-1)).toEqual({ type: "resync", topic: "run:a" });
    last().frame({ ...snapshot, sequence: 2, parts: { run: 2 } });
    expect(live.read("run:a").parts).toEqual({ run: 2 });
  });

  it("subscribes again when no snapshot comes, but not to what was refused", () => {
    live.watch("run:a", () => {});
    live.watch("run:b", () => {});
    last().accept();
    last().frame({ type: "error", topic: "run:b", code: "not_found", detail: "there is none" });
    vi.advanceTimersByTime(7_000);
    expect(last().sent.slice(2)).toEqual([{ type: "subscribe", topic: "run:a" }]);
  });

  it("asks for a snapshot at a gap, and again when none came", () => {
    live.watch("run:a", () => {});
    last().accept();
    last().frame(snapshot);
    last().frame(delta(5, 6));
    last().frame(delta(6, 7));
    const asked = () => last().sent.filter((m) => m.type === "resync").length;
    expect(asked()).toBe(1);
    vi.advanceTimersByTime(2_500);
    last().frame(delta(7, 8));
    expect(asked()).toBe(2);
    last().frame({ ...snapshot, sequence: 9, parts: { run: 9 } });
    expect(live.read("run:a").parts).toEqual({ run: 9 });
  });
});

describe("a lost connection", () => {
  it("comes back with a growing pause and subscribes again", () => {
    live.watch("run:a", () => {});
    last().accept();
    last().frame(snapshot);
    last().close();
    expect(live.readStatus().mode).toBe("connecting");
    vi.advanceTimersByTime(400);
    expect(wires).toHaveLength(2);
    last().close();
    vi.advanceTimersByTime(700);
    expect(wires).toHaveLength(2);
    vi.advanceTimersByTime(200);
    expect(wires).toHaveLength(3);
    last().accept();
    expect(last().sent).toEqual([{ type: "subscribe", topic: "run:a" }]);
    expect(live.readStatus().mode).toBe("live");
  });

  it("comes back as well when the server let go of a page that did not read", () => {
    live.watch("run:a", () => {});
    last().accept();
    last().frame(snapshot);
    last().close(4408);
    vi.advanceTimersByTime(400);
    last().accept();
    expect(last().sent).toEqual([{ type: "subscribe", topic: "run:a" }]);
    last().frame({ ...snapshot, sequence: 9, parts: { run: 9 } });
    expect(live.read("run:a").parts).toEqual({ run: 9 });
    expect(live.readStatus().mode).toBe("live");
  });

  it("is noticed when the server falls silent", () => {
    last().accept();
    vi.advanceTimersByTime(9_000);
    expect(live.readStatus()).toMatchObject({ mode: "lagging" });
    vi.advanceTimersByTime(13_000);
    expect(wires.length).toBeGreaterThan(1);
  });
});

describe("a socket that cannot open", () => {
  it("makes the page poll and say so, until it opens", async () => {
    live.watch("run:a", () => {});
    last().close();
    await vi.advanceTimersByTimeAsync(4_000);
    expect(polls).toEqual([]);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(live.readStatus().mode).toBe("polling");
    expect(polls.length).toBeGreaterThanOrEqual(1);
    expect(live.read("run:a").parts).toEqual({ run: "polled" });
    last().accept();
    const before = polls.length;
    await vi.advanceTimersByTimeAsync(6_500);
    expect(polls).toHaveLength(before);
    expect(live.readStatus().mode).toBe("live");
  });
});

it("ages follow the server's clock", () => {
  last().accept();
  last().frame({ type: "beat", at: new Date(Date.now() + 60_000).toISOString() });
  expect(live.serverNow() - Date.now()).toBe(60_000);
});

describe("an end that the server chose", () => {
  it("tells that the session is over, and does not knock again", () => {
    live.watch("run:a", () => {});
    last().accept();
    last().frame(snapshot);
    last().close(4401);
    vi.advanceTimersByTime(60_000);
    expect(signedOut).toBe(1);
    expect(wires).toHaveLength(1);
    expect(live.read("run:a").parts).toEqual({ run: 1 });
  });

  it("waits longer each time a server accepts and hangs up", () => {
    for (let i = 0; i < 4; i += 1) {
      last().accept();
      last().close(1011);
      vi.advanceTimersByTime(400 * 2 ** i - 1);
      expect(wires).toHaveLength(i + 1);
      vi.advanceTimersByTime(1);
      expect(wires).toHaveLength(i + 2);
    }
  });
});

describe("a page that is held", () => {
  it("stands still while it is told more, and then shows the newest", () => {
    let told = 0;
    live.watch("run:a", () => (told += 1));
    last().accept();
    last().frame(snapshot);
    live.hold(true);
    const before = told;
    last().frame(delta(1, 2));
    expect(live.read("run:a").parts).toEqual({ run: 1 });
    expect(told).toBe(before);
    expect(live.readStatus().mode).toBe("held");

    live.hold(false);
    expect(live.read("run:a").parts).toEqual({ run: 2 });
    expect(told).toBeGreaterThan(before);
    expect(live.readStatus().mode).toBe("live");
  });

  it("shows what is opened meanwhile once, as it is then", () => {
    last().accept();
    live.hold(true);
    live.watch("run:a", () => {});
    last().frame(snapshot);
    last().frame(delta(1, 2));
    expect(live.read("run:a").parts).toEqual({ run: 1 });
  });
});
