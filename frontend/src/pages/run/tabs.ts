/** The pages of a run in display order, and the tabs that hold them. */

import type { LinkProps } from "@tanstack/react-router";
import type { RunDetail } from "@/api/types";

export type Tab = {
  to: NonNullable<LinkProps["to"]>;
  label: string;
  /** The tab that holds this page; none for a page that is a tab. */
  group?: "Samples" | "Data" | "Fleet & logs";
  /** Key pressed after `g`; distinct from those of the main pages. */
  key?: string;
  /** Path segments of pages below this tab. */
  holds?: string[];
  /** Whether a run of this kind has the tab; defaults to all kinds. */
  isFor?: (kind: RunDetail["kind"]) => boolean;
};

/** Path segments of the viewers of single trajectories. */
const VIEWERS = ["/groups/", "/fragments/", "/transcript"];

/** Whether a path is that of a viewer, above which the run's header is smaller. */
export const isViewerAt = (pathname: string): boolean => /^\/runs\/[^/]+\/(groups\/|fragments\/|transcript$)/.test(pathname);

const hasFleet = (kind: RunDetail["kind"]) => kind !== "outside";

export const TABS: Tab[] = [
  { to: "/runs/$name", label: "Overview", key: "o" },
  { to: "/runs/$name/metrics", label: "Charts", key: "m" },
  { to: "/runs/$name/trajectories", label: "Samples", key: "t", group: "Samples", holds: VIEWERS },
  { to: "/runs/$name/episodes", label: "Episodes", group: "Samples", isFor: hasFleet },
  { to: "/runs/$name/curriculum", label: "Curriculum", isFor: (kind) => kind === "language" },
  { to: "/runs/$name/queue", label: "Queue", key: "q", group: "Data" },
  { to: "/runs/$name/environments", label: "Environments", group: "Data" },
  { to: "/runs/$name/weights", label: "Weights", key: "w", group: "Data" },
  { to: "/runs/$name/fleet", label: "Fleet", key: "f", group: "Fleet & logs" },
  { to: "/runs/$name/logs", label: "Logs", key: "l", group: "Fleet & logs" },
  { to: "/runs/$name/config", label: "Config" },
];

/** Tabs with a shortcut; it opens the tab of the current run, or of the last opened one. */
export const KEYED_TABS = TABS.filter((tab): tab is Tab & { key: string } => tab.key !== undefined);

/** The pages for a kind of run. */
export function tabsOf(kind: RunDetail["kind"]): Tab[] {
  return TABS.filter((tab) => tab.isFor?.(kind) ?? true);
}

export type TabGroup = { label: string; pages: [Tab, ...Tab[]] };

/** The tabs for a kind of run: pages of a group are one tab, a single page is its own. */
export function tabGroupsOf(kind: RunDetail["kind"]): TabGroup[] {
  const groups: TabGroup[] = [];
  for (const tab of tabsOf(kind)) {
    const last = groups.at(-1);
    if (last && tab.group && last.pages[0].group === tab.group) {
      last.pages.push(tab);
      last.label = tab.group;
    } else groups.push({ label: tab.label, pages: [tab] });
  }
  return groups;
}

/** Whether a path is that of a page of a run, or of one below it. */
export function isAt(tab: Tab, pathname: string): boolean {
  const part = tab.to.replace("/runs/$name", "");
  const place = pathname.replace(/^\/runs\/[^/]+/, "").replace(/\/$/, "");
  return place === part || (tab.holds?.some((each) => place.startsWith(each)) ?? false);
}
