import { useLocation } from "@tanstack/react-router";
import { useEffect } from "react";
import { useAlertSummary } from "@/api/alerts";
import { useLiveStatus } from "@/live/live";
import { markOf, titleOf } from "@/shell/titles";

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
