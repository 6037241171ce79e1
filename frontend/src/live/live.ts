/** The tab's live connection, its fallback, and the hooks that read from it. */

import { useThrottledCallback } from "@mantine/hooks";
import { focusManager, type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import { api, at, body, results, signedOut } from "@/api/client";
import type { Cluster } from "@/api/deployment";
import { sessionQuery, useSession } from "@/api/session";
import type { EpisodeRow, RunRow } from "@/api/types";
import { LiveConnection, type LiveStatus, type PollAnswer, type Socket } from "@/live/connection";
import type { PartName, PartOf, Parts, Row, RowOf, SeriesName, TopicName, TopicState } from "@/live/frames";

const NEWEST_ROWS = 5;

async function pollRun(name: string, shown: TopicState): Promise<PollAnswer> {
  const of = at(name);
  const after_id = (shown.series.episodes as EpisodeRow[] | undefined)?.at(-1)?.id;
  const run = await body(api.GET("/api/v1/runs/{run}", of));
  const newest = { run: name, kind: run.kind === "fleet" ? ("fragment" as const) : ("group" as const), limit: NEWEST_ROWS };
  const [samples, queue, fleet, pipeline, events, episodes] = await Promise.all([
    results(api.GET("/api/v1/trajectories", { params: { query: newest } })),
    body(api.GET("/api/v1/runs/{run}/queue", of)),
    body(api.GET("/api/v1/runs/{run}/fleet", of)),
    body(api.GET("/api/v1/runs/{run}/pipeline", of)),
    results(api.GET("/api/v1/runs/{run}/events", of)),
    results(api.GET("/api/v1/runs/{run}/episodes", { params: { path: { run: name }, query: { after_id } } })),
  ]);
  return {
    parts: { run, newest: { samples }, ledger: queue.ledger, fleet, diagnosis: pipeline.diagnosis, queue },
    series: { events: events.toReversed(), episodes: episodes.toReversed() },
  };
}

const READERS: Record<string, () => Promise<Parts>> = {
  runs: async () => ({ active: [], resting: await results(api.GET("/api/v1/runs")) }),
  alerts: async () => ({ alerts: (await body(api.GET("/api/v1/alerts", { params: { query: { limit: 1 } } }))).summary }),
  cluster: async () => ({ cluster: await body(api.GET("/api/v1/cluster")) }),
  cluster_admin: async () => ({ cluster: await body(api.GET("/api/v1/cluster")) }),
  me: async () => {
    const [session, { notice }] = await Promise.all([body(api.GET("/api/v1/session")), body(api.GET("/api/v1/server/notice"))]);
    return { session, notice };
  },
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

const watchStatus = (listener: () => void) => live.watchStatus(listener);

export function useLiveStatus(): LiveStatus {
  return useSyncExternalStore(watchStatus, () => live.readStatus());
}

/** Whether shown values may be outdated, because neither the socket nor polls bring any. */
export function useIsOutdated(): boolean {
  return useSyncExternalStore(watchStatus, () => live.readStatus().isOutdated);
}

/** Pause or resume the page: live updates and periodic refetches. */
export function holdLive(isHeld: boolean): void {
  live.hold(isHeld);
  focusManager.setFocused(isHeld ? false : undefined);
}

/** Factor by which the fallback refetch slows down while a socket reports changes. */
const LIVE_FACTOR = 15;

/**
 * Invalidate query keys when `news` changes: at once, then at a limited rate, with the changes of an interval combined at
 * its end. Return the fallback refetch interval: long with a socket, for time-dependent values; short without one.
 */
export function useChangeFeed(news: unknown, atMostEveryMs: number, ...keys: QueryKey[]): number {
  const queries = useQueryClient();
  const { mode } = useLiveStatus();
  const known = useRef<unknown>(undefined);
  const reread = useThrottledCallback(() => {
    for (const queryKey of keys) void queries.invalidateQueries({ queryKey });
  }, atMostEveryMs);
  useEffect(() => {
    if (news === undefined) return;
    // The initial value is not a change.
    if (known.current !== undefined && news !== known.current) reread();
    known.current = news;
  }, [reread, news]);
  return mode === "polling" ? atMostEveryMs : LIVE_FACTOR * atMostEveryMs;
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
