import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { LiveConnection, type PollAnswer, type Socket } from "@/live/connection";

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
let isHidden: boolean;
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
  isHidden = false;
  const onSignedOut = () => {
    signedOut += 1;
  };
  const open = (): Socket => {
    wires.push(new Wire());
    return last();
  };
  live = new LiveConnection({ open, poll, now: () => Date.now(), random: () => 1, isHidden: () => isHidden, onSignedOut });
  live.start();
});
afterEach(() => {
  live.stop();
  vi.useRealTimers();
});

const snapshot = { type: "snapshot", topic: "run:a", sequence: 1, parts: { run: 1 }, series: {} };
const delta = (previous: number, sequence: number) => ({
  type: "delta",
  topic: "run:a",
  previous,
  sequence,
  parts: { run: sequence },
  series: {},
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

  it("detects a lost last frame by the heartbeat", () => {
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

  it("resubscribes without a snapshot, except after a refusal", () => {
    live.watch("run:a", () => {});
    live.watch("run:b", () => {});
    last().accept();
    last().frame({ type: "error", topic: "run:b", code: "not_found", detail: "there is none" });
    vi.advanceTimersByTime(7_000);
    expect(last().sent.slice(2)).toEqual([{ type: "subscribe", topic: "run:a" }]);
  });

  it("requests a snapshot at a gap, and again if none arrives", () => {
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
  it("reconnects with backoff and resubscribes", () => {
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

  it("reconnects after the server dropped a slow page", () => {
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

  it("is detected when the server is silent", () => {
    last().accept();
    vi.advanceTimersByTime(9_000);
    expect(live.readStatus()).toMatchObject({ mode: "lagging" });
    vi.advanceTimersByTime(13_000);
    expect(wires.length).toBeGreaterThan(1);
  });
});

describe("a socket that cannot open", () => {
  it("shows values as outdated until a frame or a poll brings new ones", async () => {
    const isOutdated = () => live.readStatus().isOutdated;
    last().accept();
    last().frame(snapshot);
    await vi.advanceTimersByTimeAsync(9_000);
    expect(isOutdated()).toBe(false);
    await vi.advanceTimersByTimeAsync(3_000);
    expect(isOutdated()).toBe(true);
    live.hold(true);
    expect(isOutdated()).toBe(false);
    live.hold(false);
    last().frame({ type: "beat", sequences: {} });
    expect(isOutdated()).toBe(false);

    // Without a socket, polls bring the values.
    const stop = live.watch("run:a", () => {});
    last().close();
    await vi.advanceTimersByTimeAsync(60_000);
    expect([live.readStatus().mode, isOutdated()]).toEqual(["polling", false]);
    stop();
  });
  it("polls until the socket opens", async () => {
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

it("ages use the server's clock", () => {
  last().accept();
  last().frame({ type: "beat", at: new Date(Date.now() + 60_000).toISOString() });
  expect(live.serverNow() - Date.now()).toBe(60_000);
});

describe("a close by the server", () => {
  it("reports an ended session and does not reconnect", () => {
    live.watch("run:a", () => {});
    last().accept();
    last().frame(snapshot);
    last().close(4401);
    vi.advanceTimersByTime(60_000);
    expect(signedOut).toBe(1);
    expect(wires).toHaveLength(1);
    expect(live.read("run:a").parts).toEqual({ run: 1 });
  });

  it("backs off if the server accepts and closes", () => {
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

describe("a paused page", () => {
  it("buffers frames and then shows the newest state", () => {
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

  it("shows a topic opened meanwhile once", () => {
    last().accept();
    live.hold(true);
    live.watch("run:a", () => {});
    last().frame(snapshot);
    last().frame(delta(1, 2));
    expect(live.read("run:a").parts).toEqual({ run: 1 });
  });
});
