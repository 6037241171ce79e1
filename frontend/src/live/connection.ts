/** The tab's WebSocket: subscribe, resync, reconnect, and poll if it cannot open. */

import {
  applyDelta,
  applyPoll,
  applySnapshot,
  disconnected,
  type Frame,
  type Message,
  nothingYet,
  type Parts,
  parseFrame,
  type SeriesRows,
  type Step,
  type TopicState,
} from "@/live/frames";

const FRAMES_KEPT = 12;

export class ServerClock {
  private frames: number[] = [];

  /** Take the timestamp of a frame; its latency makes the server's clock look slower. */
  hear(at: number, now: number): void {
    if (Number.isFinite(at)) this.frames = [...this.frames, at - now].slice(-FRAMES_KEPT);
  }

  /** Discard measurements, as after system sleep the clock may have changed. */
  forget(): void {
    this.frames = [];
  }

  /** Milliseconds to add to the local time. */
  get offset(): number {
    return this.frames.length > 0 ? Math.max(...this.frames) : 0;
  }
}

export const POLL_AFTER_MS = 5_000;
export const POLL_EVERY_MS = 3_000;
export const RESYNC_AGAIN_MS = 2_000;
/** A topic that waits this long for its snapshot subscribes again: a message was lost. */
export const SUBSCRIBE_AGAIN_MS = 5_000;
/** Without a frame or an answer to a poll for this long, shown values may be outdated. */
export const OUTDATED_MS = 10_000;
/** The server sends a heartbeat every 5 s; after four missed ones the socket is dead. */
export const SILENCE_MS = 20_000;
/** After this long without a frame the page shows `lagging`. */
export const LAGGING_MS = 7_000;
/** Close code of the server when the session has ended. */
export const NOT_SIGNED_IN = 4401;
const FIRST_PAUSE_MS = 400;
const LONGEST_PAUSE_MS = 8_000;

/** The used subset of WebSocket. */
export type Socket = Pick<WebSocket, "send" | "close" | "readyState"> & {
  onopen: (() => void) | null;
  onclose: ((event: { code: number }) => void) | null;
  onmessage: ((event: { data: string }) => void) | null;
};

export type PollAnswer = { parts: Parts; series: SeriesRows };

export type Outside = {
  open: () => Socket;
  poll: (topic: string, shown: TopicState) => Promise<PollAnswer>;
  now: () => number;
  random: () => number;
  isHidden: () => boolean;
  onSignedOut: () => void;
};

/** `held`: the user paused updates; incoming frames are buffered until they resume. */
export type LiveMode = "connecting" | "live" | "lagging" | "polling" | "held";
/** `isOutdated`: neither the socket nor polls have brought values for a while. */
export type LiveStatus = { mode: LiveMode; silentMs: number; isOutdated: boolean };

type Topic = { state: TopicState; held: TopicState | null; watchers: number; listeners: Set<() => void>; askedAt: number };

const CONNECTING = 0;
const OPEN = 1;

export class LiveConnection {
  private topics = new Map<string, Topic>();
  private socket: Socket | null = null;
  private attempts = 0;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private ticker: ReturnType<typeof setInterval> | undefined;
  private lostAt: number;
  private lastFrameAt: number | null = null;
  private polledAt = 0;
  /** Time of the newest frame or answer to a poll. */
  private answeredAt: number;
  private polling = false;
  private isHeld = false;
  private readonly clock = new ServerClock();
  private statusListeners = new Set<() => void>();
  private status: LiveStatus = { mode: "connecting", silentMs: 0, isOutdated: false };

  constructor(private readonly outside: Outside) {
    this.lostAt = this.answeredAt = outside.now();
  }

  start(): void {
    this.lostAt = this.answeredAt = this.outside.now();
    this.connect();
    this.ticker = setInterval(() => this.tick(), 1_000);
  }

  stop(): void {
    clearInterval(this.ticker);
    clearTimeout(this.retry);
    const socket = this.socket;
    this.socket = null;
    this.lastFrameAt = null;
    this.polling = false;
    for (const topic of this.topics.values()) topic.state = disconnected(topic.state);
    if (socket) {
      socket.onclose = socket.onmessage = socket.onopen = null;
      // Closing a socket that is still connecting logs an error.
      if (socket.readyState === CONNECTING) socket.onopen = () => socket.close();
      else socket.close();
    }
  }

  /** Watch a topic until the returned function is called. */
  watch(name: string, listener: () => void): () => void {
    const topic = this.topic(name);
    topic.listeners.add(listener);
    topic.watchers += 1;
    if (topic.watchers === 1) {
      this.subscribe(name, topic);
      if (this.polling) void this.poll();
    }
    return () => {
      topic.listeners.delete(listener);
      topic.watchers -= 1;
      if (topic.watchers === 0) {
        this.send({ type: "unsubscribe", topic: name });
        topic.state = disconnected(topic.state);
      }
    };
  }

  read(name: string): TopicState {
    const topic = this.topics.get(name);
    return topic?.held ?? topic?.state ?? nothingYet;
  }

  watchStatus(listener: () => void): () => void {
    this.statusListeners.add(listener);
    return () => this.statusListeners.delete(listener);
  }

  readStatus(): LiveStatus {
    return this.status;
  }

  /** The server's current time, so that ages are correct despite local clock skew. */
  serverNow(): number {
    return this.outside.now() + this.clock.offset;
  }

  setVisible(visible: boolean): void {
    this.send({ type: "visible", visible });
    if (visible) this.tick();
  }

  /** Pause updates of the page, or resume with everything received since. */
  hold(isHeld: boolean): void {
    this.isHeld = isHeld;
    for (const topic of this.topics.values()) {
      topic.held = isHeld && topic.state !== nothingYet ? topic.state : null;
      if (!isHeld) for (const listener of topic.listeners) listener();
    }
    this.tick();
  }

  private topic(name: string): Topic {
    let topic = this.topics.get(name);
    if (!topic) {
      topic = { state: nothingYet, held: null, watchers: 0, listeners: new Set(), askedAt: 0 };
      this.topics.set(name, topic);
    }
    return topic;
  }

  private connect(): void {
    const socket = this.outside.open();
    this.socket = socket;
    socket.onopen = () => {
      this.polling = false;
      this.lastFrameAt = this.outside.now();
      for (const [name, topic] of this.topics) {
        if (topic.watchers > 0) this.subscribe(name, topic);
      }
      if (this.outside.isHidden()) this.send({ type: "visible", visible: false });
      this.clock.forget();
      this.tick();
    };
    socket.onmessage = (event) => {
      const frame = parseFrame(event.data);
      if (frame) this.take(frame);
    };
    socket.onclose = ({ code }) => this.lost(socket, code);
  }

  private lost(socket: Socket, code: number): void {
    if (this.socket !== socket) return;
    this.socket = null;
    if (this.lastFrameAt !== null) this.lostAt = this.outside.now();
    this.lastFrameAt = null;
    for (const topic of this.topics.values()) topic.state = disconnected(topic.state);
    if (code === NOT_SIGNED_IN) {
      this.outside.onSignedOut();
      return;
    }
    const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.attempts);
    this.attempts += 1;
    // Jittered, so that a restarted server does not get all tabs at once.
    this.retry = setTimeout(() => this.connect(), pause * (0.5 + this.outside.random() / 2));
    this.tick();
  }

  private take(frame: Frame): void {
    const now = this.outside.now();
    this.lastFrameAt = this.answeredAt = now;
    // Reset the backoff only after a message: a server may accept and close immediately.
    this.attempts = 0;
    if ("at" in frame) this.clock.hear(Date.parse(frame.at), now);
    if (frame.type === "beat") this.compare(frame.sequences);
    if (frame.type === "beat" || !frame.topic) {
      this.tick();
      return;
    }
    const topic = this.topic(frame.topic);
    const step = this.step(topic.state, frame);
    this.set(topic, step.state);
    const waiting = frame.type === "delta" && topic.state.sequence === null;
    if (step.resync || (waiting && now - topic.askedAt > RESYNC_AGAIN_MS)) {
      topic.askedAt = now;
      this.send({ type: "resync", topic: frame.topic });
    }
    if (this.status.mode !== "live") this.tick();
  }

  private step(state: TopicState, frame: Exclude<Frame, { type: "beat" }>): Step {
    if (frame.type === "delta") return applyDelta(state, frame);
    if (frame.type === "snapshot") return { state: applySnapshot(state, frame), resync: false };
    return { state: { ...state, error: { code: frame.code, detail: frame.detail } }, resync: false };
  }

  private subscribe(name: string, topic: Topic): void {
    topic.askedAt = this.outside.now();
    this.send({ type: "subscribe", topic: name });
  }

  /** Resubscribe to topics for which frames are missing. */
  private compare(sequences: Record<string, number | null>): void {
    for (const [name, sent] of Object.entries(sequences)) {
      const topic = this.topics.get(name);
      if (!topic || topic.watchers === 0 || sent === null || (topic.state.sequence ?? sent) >= sent) continue;
      topic.state = disconnected(topic.state);
      topic.askedAt = this.outside.now();
      this.send({ type: "resync", topic: name });
    }
  }

  private requestPending(now: number): void {
    for (const [name, topic] of this.topics) {
      const { sequence, error } = topic.state;
      const waits = topic.watchers > 0 && sequence === null && error === null;
      if (waits && now - topic.askedAt > SUBSCRIBE_AGAIN_MS) this.subscribe(name, topic);
    }
  }

  private set(topic: Topic, state: TopicState): void {
    if (topic.state === state) return;
    topic.state = state;
    if (topic.held) return;
    // A topic without data shows its first state once, then stays paused too.
    if (this.isHeld) topic.held = state;
    for (const listener of topic.listeners) listener();
  }

  private send(message: Message): void {
    if (this.socket?.readyState === OPEN) this.socket.send(JSON.stringify(message));
  }

  private tick(): void {
    const now = this.outside.now();
    const silentMs = this.lastFrameAt === null ? now - this.lostAt : now - this.lastFrameAt;
    if (this.lastFrameAt !== null && silentMs > SILENCE_MS) this.socket?.close();
    else if (this.lastFrameAt !== null) this.requestPending(now);
    if (this.lastFrameAt === null && silentMs > POLL_AFTER_MS) {
      this.polling = true;
      if (now - this.polledAt >= POLL_EVERY_MS && !this.outside.isHidden()) void this.poll();
    }
    // A held page shows past values on request.
    const isOutdated = !this.isHeld && now - this.answeredAt > OUTDATED_MS;
    this.setStatus({ mode: this.mode(silentMs), silentMs, isOutdated });
  }

  private mode(silentMs: number): LiveMode {
    if (this.isHeld) return "held";
    if (this.lastFrameAt === null) return this.polling ? "polling" : "connecting";
    return silentMs > LAGGING_MS ? "lagging" : "live";
  }

  private setStatus(status: LiveStatus): void {
    const same = status.mode === this.status.mode && status.isOutdated === this.status.isOutdated;
    const sameSecond = Math.floor(status.silentMs / 1000) === Math.floor(this.status.silentMs / 1000);
    if (same && (status.mode === "live" || sameSecond)) return;
    this.status = status;
    for (const listener of this.statusListeners) listener();
  }

  private async poll(): Promise<void> {
    this.polledAt = this.outside.now();
    const watched = [...this.topics].filter(([, topic]) => topic.watchers > 0);
    await Promise.all(
      watched.map(async ([name, topic]) => {
        try {
          const answer = await this.outside.poll(name, topic.state);
          if (!this.polling) return;
          this.answeredAt = this.outside.now();
          const at = new Date(this.serverNow()).toISOString();
          this.set(topic, applyPoll(topic.state, at, answer.parts, answer.series));
        } catch {
          // The server is away altogether; the indicator already says so.
        }
      }),
    );
  }
}
