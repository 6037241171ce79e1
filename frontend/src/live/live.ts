/** Hold this tab's one live connection and let components read from it. */

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

/** The first task after the next frame: by then the browser has drawn it. */
function afterPaint(act: () => void): void {
  requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = act;
    port2.postMessage(0);
  });
}

export const live = new LiveConnection({
  open,
  poll,
  now: () => Date.now(),
  random: () => Math.random(),
  afterPaint,
  isHidden: () => document.hidden,
  onSignedOut: signedOut,
});

let started = false;

function tellVisible(): void {
  live.setVisible(!document.hidden);
}

/** Open the socket, once somebody is signed in. */
export function startLive(): void {
  if (started) return;
  started = true;
  live.start();
  document.addEventListener("visibilitychange", tellVisible);
}

/** Close the socket: nobody is signed in any more. */
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

/** The newest value of one part; renders again only when that part changed. */
export function usePart<T extends TopicName, N extends PartName<T>>(topic: T, name: N): PartOf<T, N> | undefined {
  return useTopicValue(topic, (state) => state.parts[name] as PartOf<T, N> | undefined);
}

const NO_ROWS: Row[] = [];

/** All rows known of a series, oldest first. */
export function useSeries<T extends TopicName, N extends SeriesName<T>>(topic: T, name: N): RowOf<T, N>[] {
  return useTopicValue(topic, (state) => state.series[name] ?? NO_ROWS) as unknown as RowOf<T, N>[];
}

/** What the server said against the topic, if anything. */
export function useTopicError(topic: TopicName): TopicState["error"] {
  return useTopicValue(topic, (state) => state.error);
}

/** When the newest frame of the topic was made, in server time. */
export function useTopicAt(topic: TopicName): string | null {
  return useTopicValue(topic, (state) => state.at);
}

export function useLiveStatus(): LiveStatus {
  return useSyncExternalStore(
    (listener) => live.watchStatus(listener),
    () => live.readStatus(),
  );
}

/** Let the whole page stand still, or move on: what the socket tells, and what is asked every few seconds. */
export function holdLive(isHeld: boolean): void {
  live.hold(isHeld);
  focusManager.setFocused(isHeld ? false : undefined);
}
