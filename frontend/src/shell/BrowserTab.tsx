/** The title and icon of the browser tab. */

import { useLocation } from "@tanstack/react-router";
import { useEffect } from "react";
import { useAlertSummary } from "@/api/alerts";
import { visible } from "@/format";
import type { LiveMode } from "@/live/connection";
import { useLiveStatus } from "@/live/live";
import { TABS } from "@/pages/run/tabs";
import { MAIN_PAGES } from "@/shell/mainPages";

export const APP_NAME = "Rolldeck";
const FURTHER: Record<string, string> = { "/login": "Sign in", "/compare": "Compare" };

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // The path may contain invalid percent-encoding.
    return text;
  }
}

function partOf(part: string, id: string): string {
  if (part === "groups") return `Group ${decoded(id)}`;
  if (part === "transcript") return "Episode";
  if (part === "fragments") return `Fragment ${decoded(id)}`;
  return TABS.find(({ to }) => to === `/runs/$name/${part}`)?.label ?? "";
}

/** `Queue · my-run · Rolldeck`; prefixed with the number of open errors. */
export function titleOf(pathname: string, errors = 0): string {
  const [, first = "", name = "", part = "", id = ""] = pathname.split("/");
  const place = MAIN_PAGES.find(({ to }) => to === pathname)?.label ?? FURTHER[pathname];
  const isRun = place === undefined && first === "runs" && name !== "";
  const words = isRun ? [part && partOf(part, id), decoded(name)] : [place];
  const title = visible([...words, APP_NAME].filter(Boolean).join(" · "));
  return errors > 0 ? `(${errors}) ${title}` : title;
}

/** The tab icon: grey without live updates, with a dot while an error alert is open. */
export function markOf(mode: LiveMode, errors: number): "mark.svg" | "mark-alert.svg" | "mark-away.svg" {
  if (mode === "polling") return "mark-away.svg";
  return errors > 0 ? "mark-alert.svg" : "mark.svg";
}

/** The title and icon of the browser tab: the page's name and open alerts. */
export function BrowserTab() {
  const { pathname } = useLocation();
  const { mode } = useLiveStatus();
  const errors = useAlertSummary()?.errors ?? 0;
  const mark = markOf(mode, errors);
  useEffect(() => {
    document.title = titleOf(pathname, errors);
  }, [pathname, errors]);
  useEffect(() => {
    document.querySelector<HTMLLinkElement>("link[rel=icon]")?.setAttribute("href", import.meta.env.BASE_URL + mark);
  }, [mark]);
  return null;
}
