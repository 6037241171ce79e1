/** The tab's live connection and the hooks that read from it. */

import { focusManager } from "@tanstack/react-query";
import { useCallback, useSyncExternalStore } from "react";
import { signedOut } from "@/api/client";
import { LiveConnection, type LiveStatus, type Socket } from "@/live/connection";
import type { PartName, PartOf, Row, RowOf, SeriesName, TopicName } from "@/live/frames";
import { poll } from "@/live/poll";
import type { TopicState } from "@/live/reducer";

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
