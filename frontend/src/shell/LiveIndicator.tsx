import { Tooltip } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import type { LiveStatus } from "@/live/connection";
import { holdLive, useLiveStatus } from "@/live/live";
import { useShortcuts } from "@/shell/keyboard";

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
      return { sign: "◐", text: "polling every 3 s", tone: "held", meaning: "The live socket cannot open; the page asks every three seconds instead." };
    default:
      return { sign: "○", text: "reconnecting", tone: "quiet", meaning: "The live socket is opening; numbers stay as they were." };
  }
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
      <Tooltip label={look.meaning} events={{ hover: true, focus: true, touch: true }}>
        <button type="button" className={`chip chip-button tone-${look.tone}`} aria-pressed={isHeld} aria-keyshortcuts="l" data-live={status.mode} onClick={toggle}>
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
