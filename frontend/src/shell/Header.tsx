/** The header of all pages. */

import { ActionIcon, Box, Button, Indicator, Space, VisuallyHidden } from "@mantine/core";
import { useThrottledValue } from "@mantine/hooks";
import { Link } from "@tanstack/react-router";
import { Bell, Menu as MenuIcon, Search } from "lucide-react";
import { useAlertSummary } from "@/api/alerts";
import { useSession } from "@/api/session";
import { Chip, countsText } from "@/components/chips";
import { Hint, KeyHint } from "@/components/inline";
import { MenuButton, onDemand } from "@/components/onDemand";
import { useOutage } from "@/components/panels";
import { duration } from "@/format";
import type { LiveMode, LiveStatus } from "@/live/connection";
import { holdLive, useLiveStatus } from "@/live/live";
import { useShortcuts } from "@/shell/keyboard";
import css from "@/shell/shell.module.css";

/** Rolldeck's logo: a learning curve. */
export function Mark({ size = 24 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="#3d5afe" />
      <path d="M7 22c4.500-1 5.500-11 9.500-11S21 17 25 10" fill="none" stroke="#fff" strokeWidth="3" strokeLinecap="round" />
      <circle cx="25" cy="10" r="2.600" fill="#fff" />
    </svg>
  );
}

const MOST = 99;

/** The number of open alerts, with a link to the alerts page. */
export function AlertsBell() {
  const summary = useAlertSummary();
  const { errors = 0, warnings = 0 } = summary ?? {};
  const open = errors + warnings;
  const silence = useOutage();
  const tone = silence ? "quiet" : errors > 0 ? "bad" : "held";
  // For voice control the accessible name must contain the visible text.
  const counts = countsText({ errors, warnings });
  const says = silence ? `${counts}, ${silence} ago: no server since` : counts;
  const shown = open > MOST ? `${MOST}+` : `${open}`;
  return (
    <>
      <Indicator label={shown} disabled={open === 0} color={tone} variant="light" size={18} offset={5}>
        <ActionIcon
          component={Link}
          to="/alerts"
          variant="subtle"
          color="soft"
          size="lg"
          aria-label={open > 0 ? `${says}; ${shown} open` : says}
          title={says}
          data-open-alerts={summary && open}
        >
          <Bell size={18} strokeWidth={1.8} aria-hidden="true" />
        </ActionIcon>
      </Indicator>
      <VisuallyHidden role="status" aria-live="polite">
        {errors > 0 ? says : ""}
      </VisuallyHidden>
    </>
  );
}

type ConnectionLook = { sign: string; text: string; tone: string; meaning: string };

const LOOKS: Record<LiveMode, ConnectionLook> = {
  live: { sign: "●", text: "live", tone: "good", meaning: "Changes appear as they happen. Press l to pause updates." },
  held: { sign: "❚❚", text: "paused", tone: "held", meaning: "Updates are paused; runs continue. Press l to resume." },
  lagging: { sign: "◐", text: "lagging", tone: "held", meaning: "No message from the server; values may be outdated." },
  polling: { sign: "◐", text: "polling every 3 s", tone: "held", meaning: "The WebSocket cannot open; data is refreshed every 3 s." },
  connecting: { sign: "○", text: "reconnecting", tone: "quiet", meaning: "The WebSocket is opening; values are not updated." },
};

/** The look of the connection; `isOutdated` without an answer to polls either. */
function lookOf({ mode, silentMs, isOutdated }: LiveStatus): ConnectionLook {
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
        <Chip
          component="button"
          type="button"
          tone={look.tone}
          sign={look.sign}
          aria-pressed={isHeld}
          aria-keyshortcuts="l"
          data-live={status.mode}
          onClick={toggle}
        >
          {look.text}
        </Chip>
      </Hint>
      <VisuallyHidden role="status" aria-live="polite">
        {spoken}
      </VisuallyHidden>
    </>
  );
}

const UserMenu = onDemand(() => import("@/shell/menus"), "UserMenu");
const PlacesMenu = onDemand(() => import("@/shell/menus"), "PlacesMenu");

const IS_APPLE = /Mac|iPhone|iPad/.test(navigator.platform);
const PALETTE_KEYS = IS_APPLE ? "⌘K" : "Ctrl K";

export function Header({ onHelp, onPalette }: { onHelp: () => void; onPalette: () => void }) {
  const username = useSession()?.username;
  return (
    <header className={css.header}>
      <MenuButton
        menu={PlacesMenu}
        target={
          <ActionIcon variant="default" size="lg" hiddenFrom="sm" aria-label="Pages">
            <MenuIcon size={18} aria-hidden="true" />
          </ActionIcon>
        }
      />
      <Link to="/runs" className={css.brand} aria-label="Rolldeck, runs">
        <Mark size={22} />
        <Box visibleFrom="sm">Rolldeck</Box>
      </Link>
      <Space flex={1} />
      <Button
        variant="default"
        size="compact-md"
        c="soft"
        aria-label={`Search or command… ${PALETTE_KEYS}`}
        aria-keyshortcuts="Control+K Meta+K"
        onClick={onPalette}
      >
        <Search size={16} aria-hidden="true" />
        <Box visibleFrom="sm">&nbsp;Search or command…&nbsp;</Box> <KeyHint>{PALETTE_KEYS}</KeyHint>
      </Button>
      <AlertsBell />
      <LiveIndicator />
      <MenuButton
        menu={UserMenu}
        onHelp={onHelp}
        target={
          <Button variant="default" size="compact-md" aria-label={`Menu of ${username ?? "unknown user"}`}>
            <span>{username ?? "…"}</span>
            <span aria-hidden="true">&nbsp;▾</span>
          </Button>
        }
      />
    </header>
  );
}
