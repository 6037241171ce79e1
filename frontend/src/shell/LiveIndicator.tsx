import { useEffect, useRef, useState } from "react";
import { Hint } from "@/components/Hint";
import { duration } from "@/format";
import type { LiveStatus } from "@/live/connection";
import { holdLive, useLiveStatus } from "@/live/live";
import { useShortcuts } from "@/shell/keyboard";

type Look = { sign: string; text: string; tone: string; meaning: string };

/** The look of the connection; `isOutdated` without an answer to polls either. */
function lookOf({ mode, silentMs, isOutdated }: LiveStatus): Look {
  const seconds = Math.floor(silentMs / 1000);
  if (isOutdated && (mode === "polling" || mode === "connecting")) {
    return {
      sign: "✕",
      text: `no server for ${duration(seconds)}`,
      tone: "bad",
      meaning: "Neither the WebSocket nor requests get an answer; values are as old as that. The page reconnects by itself.",
    };
  }
  switch (mode) {
    case "live":
      return { sign: "●", text: "live", tone: "good", meaning: "Changes appear as they happen. Press l to pause updates." };
    case "held":
      return { sign: "❚❚", text: "paused", tone: "held", meaning: "Updates are paused; runs continue. Press l to resume." };
    case "lagging":
      return { sign: "◐", text: `lagging ${seconds} s`, tone: "held", meaning: "No message from the server; values may be outdated." };
    case "polling":
      return {
        sign: "◐",
        text: "polling every 3 s",
        tone: "held",
        meaning: "The WebSocket cannot open; data is refreshed every 3 s.",
      };
    default:
      return { sign: "○", text: "reconnecting", tone: "quiet", meaning: "The WebSocket is opening; values are not updated." };
  }
}

/** Announce connection changes to screen readers, at most every 10 s. */
function useCalm(text: string): string {
  const [calm, setCalm] = useState(text);
  const last = useRef(0);
  useEffect(() => {
    const wait = Math.max(0, last.current + 10_000 - Date.now());
    const timer = setTimeout(() => {
      last.current = Date.now();
      setCalm(text);
    }, wait);
    return () => clearTimeout(timer);
  }, [text]);
  return calm;
}

/** The connection state; a click pauses or resumes updates. */
export function LiveIndicator() {
  const status = useLiveStatus();
  const look = lookOf(status);
  const isHeld = status.mode === "held";
  const spoken = useCalm(`Connection: ${look.tone === "bad" ? "no server" : status.mode}`);
  const toggle = () => holdLive(!isHeld);
  useShortcuts({ l: toggle });
  return (
    <>
      <Hint label={look.meaning}>
        <button
          type="button"
          className={`chip chip-button tone-${look.tone}`}
          aria-pressed={isHeld}
          aria-keyshortcuts="l"
          data-live={status.mode}
          onClick={toggle}
        >
          <span className="chip-sign" aria-hidden="true">
            {look.sign}
          </span>
          {look.text}
        </button>
      </Hint>
      <span className="unseen" role="status" aria-live="polite">
        {spoken}
      </span>
    </>
  );
}
