import { useThrottledValue } from "@mantine/hooks";
import { Hint } from "@/components/Hint";
import { duration } from "@/format";
import type { LiveMode, LiveStatus } from "@/live/connection";
import { holdLive, useLiveStatus } from "@/live/live";
import { useShortcuts } from "@/shell/keyboard";

type Look = { sign: string; text: string; tone: string; meaning: string };

const LOOKS: Record<LiveMode, Look> = {
  live: { sign: "●", text: "live", tone: "good", meaning: "Changes appear as they happen. Press l to pause updates." },
  held: { sign: "❚❚", text: "paused", tone: "held", meaning: "Updates are paused; runs continue. Press l to resume." },
  lagging: { sign: "◐", text: "lagging", tone: "held", meaning: "No message from the server; values may be outdated." },
  polling: { sign: "◐", text: "polling every 3 s", tone: "held", meaning: "The WebSocket cannot open; data is refreshed every 3 s." },
  connecting: { sign: "○", text: "reconnecting", tone: "quiet", meaning: "The WebSocket is opening; values are not updated." },
};

/** The look of the connection; `isOutdated` without an answer to polls either. */
function lookOf({ mode, silentMs, isOutdated }: LiveStatus): Look {
  const seconds = Math.floor(silentMs / 1000);
  if (mode === "lagging") return { ...LOOKS.lagging, text: `lagging ${seconds} s` };
  if (!isOutdated || (mode !== "polling" && mode !== "connecting")) return LOOKS[mode];
  const meaning = "Neither the WebSocket nor requests get an answer; values are as old as that. The page reconnects by itself.";
  return { sign: "✕", text: `no server for ${duration(seconds)}`, tone: "bad", meaning };
}

/** The connection state; a click pauses or resumes updates. */
export function LiveIndicator() {
  const status = useLiveStatus();
  const look = lookOf(status);
  const isHeld = status.mode === "held";
  // Screen readers announce changes at most every 10 s.
  const spoken = useThrottledValue(`Connection: ${look.tone === "bad" ? "no server" : status.mode}`, 10_000);
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
