/** The tab's live connection, its fallback, and the hooks that read from it. */

import { focusManager, type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useSyncExternalStore } from "react";
import { api, body, signedOut } from "@/api/client";
import type { Cluster } from "@/api/deployment";
import type { components } from "@/api/schema";
import { sessionQuery, useSession } from "@/api/session";
import type { EpisodeRow, NewestTrajectories, RunDetail, RunRow } from "@/api/types";
import { LiveConnection, type LiveStatus, type PollAnswer, type Socket } from "@/live/connection";
import type { PartName, PartOf, Parts, Row, RowOf, SeriesName, TopicName, TopicState } from "@/live/frames";

const NEWEST_ROWS = 5;

async function pollNewest({ name, kind }: RunDetail): Promise<NewestTrajectories> {
  const query = { run: name, kind: kind === "fleet" ? ("fragment" as const) : ("group" as const), limit: NEWEST_ROWS };
  return { samples: (await body(api.GET("/api/v1/trajectories", { params: { query } }))).results };
}

async function pollRun(name: string, shown: TopicState): Promise<PollAnswer> {
  const params = { path: { run: name } };
  const last = (shown.series.episodes as EpisodeRow[] | undefined)?.at(-1)?.id;
  const run = await body(api.GET("/api/v1/runs/{run}", { params }));
  const [newest, queue, fleet, pipeline, events, episodes] = await Promise.all([
    pollNewest(run),
    body(api.GET("/api/v1/runs/{run}/queue", { params })),
    body(api.GET("/api/v1/runs/{run}/fleet", { params })),
    body(api.GET("/api/v1/runs/{run}/pipeline", { params })),
    body(api.GET("/api/v1/runs/{run}/events", { params })),
    body(api.GET("/api/v1/runs/{run}/episodes", { params: { ...params, query: { after_id: last } } })),
  ]);
  return {
    parts: { run, newest, ledger: queue.ledger, fleet, diagnosis: pipeline.diagnosis, queue },
    series: {
      events: [...events.results].reverse(),
      episodes: [...episodes.results].reverse(),
    },
  };
}

async function pollMe(): Promise<Parts> {
  const [session, { notice }] = await Promise.all([body(api.GET("/api/v1/session")), body(api.GET("/api/v1/server/notice"))]);
  return { session, notice };
}

const READERS: Record<string, () => Promise<Parts>> = {
  runs: async () => ({ active: [], resting: (await body(api.GET("/api/v1/runs"))).results }),
  alerts: async () => ({ alerts: (await body(api.GET("/api/v1/alerts", { params: { query: { limit: 1 } } }))).summary }),
  cluster: async () => ({ cluster: await body(api.GET("/api/v1/cluster")) }),
  cluster_admin: async () => ({ cluster: await body(api.GET("/api/v1/cluster")) }),
  me: pollMe,
};

/** Return the update that the topic's socket would have sent. */
export async function poll(topic: string, shown: TopicState): Promise<PollAnswer> {
  if (topic.startsWith("run:")) return pollRun(topic.slice(4), shown);
  const read = READERS[topic];
  return { parts: read ? await read() : {}, series: {} };
}

function open(): Socket {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  return new WebSocket(`${scheme}://${location.host}/ws/live`) as unknown as Socket;
}

export const live = new LiveConnection({
  open,
  poll,
  now: () => Date.now(),
  random: () => Math.random(),
  isHidden: () => document.hidden,
  onSignedOut: signedOut,
});

let started = false;

function tellVisible(): void {
  live.setVisible(!document.hidden);
}

/** Open the socket after sign-in. */
export function startLive(): void {
  if (started) return;
  started = true;
  live.start();
  document.addEventListener("visibilitychange", tellVisible);
}

/** Close the socket after sign-out. */
export function stopLive(): void {
  if (!started) return;
  started = false;
  document.removeEventListener("visibilitychange", tellVisible);
  live.stop();
}

function useTopicValue<T>(topic: TopicName, pick: (state: TopicState) => T): T {
  const watch = useCallback((listener: () => void) => live.watch(topic, listener), [topic]);
  return useSyncExternalStore(watch, () => pick(live.read(topic)));
}

/** The newest value of one part; renders only when that part changes. */
export function usePart<T extends TopicName, N extends PartName<T>>(topic: T, name: N): PartOf<T, N> | undefined {
  return useTopicValue(topic, (state) => state.parts[name] as PartOf<T, N> | undefined);
}

const NO_ROWS: Row[] = [];

/** All known rows of a series, oldest first. */
export function useSeries<T extends TopicName, N extends SeriesName<T>>(topic: T, name: N): RowOf<T, N>[] {
  return useTopicValue(topic, (state) => state.series[name] ?? NO_ROWS) as unknown as RowOf<T, N>[];
}

/** The server's error for the topic, if any. */
export function useTopicError(topic: TopicName): TopicState["error"] {
  return useTopicValue(topic, (state) => state.error);
}

/** Server time of the topic's newest frame. */
export function useTopicAt(topic: TopicName): string | null {
  return useTopicValue(topic, (state) => state.at);
}

export function useLiveStatus(): LiveStatus {
  return useSyncExternalStore(
    (listener) => live.watchStatus(listener),
    () => live.readStatus(),
  );
}

/** Whether shown values may be outdated, because neither the socket nor polls bring any. */
export function useIsOutdated(): boolean {
  return useSyncExternalStore(
    (listener) => live.watchStatus(listener),
    () => live.readStatus().isOutdated,
  );
}

/** Pause or resume the page: live updates and periodic refetches. */
export function holdLive(isHeld: boolean): void {
  live.hold(isHeld);
  focusManager.setFocused(isHeld ? false : undefined);
}

/** Factor by which the fallback refetch slows down while a socket reports changes. */
const LIVE_FACTOR = 10;

/**
 * Refetch on the first change, then at a limited rate: changes within the interval are combined
 * into one refetch at its end. The initial value is not a change.
 */
export class Rereading {
  private known: unknown = undefined;
  private readAt = Number.NEGATIVE_INFINITY;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly read: () => void,
    private readonly atMostEveryMs: number,
  ) {}

  /** Take the newest value of a part; undefined if there is none. */
  hear(value: unknown): void {
    if (value === undefined || value === this.known) return;
    const isFirst = this.known === undefined;
    this.known = value;
    if (isFirst || this.timer !== undefined) return;
    const act = () => {
      this.timer = undefined;
      this.readAt = Date.now();
      this.read();
    };
    this.timer = setTimeout(act, Math.max(0, this.readAt + this.atMostEveryMs - Date.now()));
  }

  /** Stop refetching: the page is unmounted. */
  leave(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }
}

/** Fallback refetch interval: long with a socket, for time-dependent values; short without one. */
export const askEveryMs = (mode: string, everyMs: number): number => (mode === "polling" ? everyMs : LIVE_FACTOR * everyMs);

/** Invalidate query keys when `news` changes, at a limited rate; return the fallback refetch interval. */
export function useChangeFeed(news: unknown, atMostEveryMs: number, ...keys: QueryKey[]): number {
  const queries = useQueryClient();
  const { mode } = useLiveStatus();
  const words = JSON.stringify(keys);
  const rereading = useMemo(() => {
    const read = () => {
      for (const queryKey of JSON.parse(words) as QueryKey[]) void queries.invalidateQueries({ queryKey });
    };
    return new Rereading(read, atMostEveryMs);
  }, [queries, words, atMostEveryMs]);
  useEffect(() => rereading.hear(news), [rereading, news]);
  useEffect(() => () => rereading.leave(), [rereading]);
  return askEveryMs(mode, atMostEveryMs);
}

/** The same for a part of a topic. */
export function usePartChangeFeed<T extends TopicName, N extends PartName<T>>(
  topic: T,
  part: N,
  atMostEveryMs: number,
  ...keys: QueryKey[]
): number {
  return useChangeFeed(usePart(topic, part), atMostEveryMs, ...keys);
}

/** The parts of the deployment; only administrators receive addresses. */
export function useCluster(): { cluster: Cluster | undefined; refused: string | undefined } {
  const topic = useSession()?.role === "admin" ? "cluster_admin" : "cluster";
  return { cluster: usePart(topic, "cluster"), refused: useTopicError(topic)?.detail };
}

const NO_RUNS: NonNullable<PartOf<"runs", "active">> = [];
const NO_HEARTBEATS: NonNullable<PartOf<"runs", "heartbeats">> = [];

/** The newest runs, unordered: active ones, which change often, and inactive ones. */
export function useLiveRuns(): RunRow[] {
  const active = usePart("runs", "active") ?? NO_RUNS;
  const resting = usePart("runs", "resting") ?? NO_RUNS;
  const heartbeats = usePart("runs", "heartbeats") ?? NO_HEARTBEATS;
  return useMemo(() => {
    const heard = new Map(heartbeats.map(({ run_id, observed_at }) => [run_id, observed_at]));
    return [...active.map((run) => ({ ...run, observed_at: heard.get(run.id) ?? null })), ...resting];
  }, [active, resting, heartbeats]);
}

/** The notice to all users; undefined until loaded. */
export function useNotice() {
  return usePart("me", "notice");
}

/** Keep the session current: a changed role applies immediately, an ended session signs out. */
export function useOwnSession(): void {
  const session = usePart("me", "session");
  const queries = useQueryClient();
  useEffect(() => {
    if (session) queries.setQueryData(sessionQuery.queryKey, session);
  }, [session, queries]);
}

type Schemas = components["schemas"];

const EVENTS_PER_PAGE = 200;
const EVENT_PAGES = 6;

/** Fetch a few pages of events: frequent events push rare ones out of the window. */
async function backfillEvents(run: string, topic: string): Promise<void> {
  // The window of a run with fewer events holds all of them.
  if ((live.read(topic).series.events?.length ?? 0) < EVENTS_PER_PAGE) return;
  let cursor: string | undefined;
  for (let page = 0; page < EVENT_PAGES; page += 1) {
    const query = { cursor, limit: EVENTS_PER_PAGE };
    const events: Schemas["EventList"] = await body(api.GET("/api/v1/runs/{run}/events", { params: { path: { run }, query } }));
    live.addBackfill(topic, "events", [...events.results].reverse());
    if (events.next === null) return;
    cursor = events.next;
  }
}

/** Backfill the events of a run's topic after its first snapshot. */
export function useEventBackfill(run: string, topic: string, isShown: boolean): void {
  useEffect(() => {
    // On failure the page shows less history, which is still correct.
    if (isShown) void backfillEvents(run, topic).catch(() => undefined);
  }, [run, topic, isShown]);
}
