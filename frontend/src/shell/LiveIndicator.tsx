import { Tooltip } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import type { LiveStatus } from "@/live/connection";
import { holdLive, live, useLiveStatus } from "@/live/live";
import type { Painted } from "@/live/painting";
import { useShortcuts } from "@/shell/keyboard";
import { paintedText } from "@/shell/painted";

type Look = { sign: string; text: string; tone: string; meaning: string };

function lookOf({ mode, silentMs }: LiveStatus): Look {
  const seconds = Math.floor(silentMs / 1000);
  switch (mode) {
    case "live":
      return { sign: "●", text: "live", tone: "good", meaning: "Every change shows as it happens. Press l to let the page stand still." };
    case "held":
      return { sign: "❚❚", text: "held", tone: "held", meaning: "You let the page stand still; runs go on. Press l to see what is now." };
    case "lagging":
      return { sign: "◐", text: `lagging ${seconds} s`, tone: "held", meaning: "The server has been silent; numbers may be old." };
    case "polling":
      return {
        sign: "◐",
        text: "polling every 3 s",
        tone: "held",
        meaning: "The live socket cannot open; the page asks every three seconds instead.",
      };
    default:
      return { sign: "○", text: "reconnecting", tone: "quiet", meaning: "The live socket is opening; numbers stay as they were." };
  }
}

const LOOK_EVERY_MS = 2_000;

/** How soon the newest change was painted: read while somebody looks, every two seconds. */
function NewestPainted() {
  const [painted, setPainted] = useState<Painted | null>(() => live.readPainted());
  useEffect(() => {
    const timer = setInterval(() => setPainted(live.readPainted()), LOOK_EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  return painted && <div data-painted={Math.round(painted.ms)}>{paintedText(painted)}</div>;
}

/** Say a change of mode to screen readers, at most every ten seconds. */
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

/** Whether the page is live; pressed, it stands still until it is pressed again. */
export function LiveIndicator() {
  const status = useLiveStatus();
  const look = lookOf(status);
  const isHeld = status.mode === "held";
  const spoken = useCalm(`Connection: ${status.mode}`);
  const toggle = () => holdLive(!isHeld);
  useShortcuts({ l: toggle });
  return (
    <>
      <Tooltip
        label={
          <>
            {look.meaning}
            {status.mode === "live" && <NewestPainted />}
          </>
        }
        events={{ hover: true, focus: true, touch: true }}
      >
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
      </Tooltip>
      <span className="unseen" role="status" aria-live="polite">
        {spoken}
      </span>
    </>
  );
}
