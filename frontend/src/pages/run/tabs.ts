/** The tabs of a run page, in display order. */

import type { LinkProps } from "@tanstack/react-router";
import type { RunDetail } from "@/api/types";

export type Tab = {
  to: NonNullable<LinkProps["to"]>;
  label: string;
  /** Key pressed after `g`; distinct from those of the main pages. */
  key?: string;
  /** Path segments of pages below this tab. */
  holds?: string[];
  /** Whether a run of this kind has the tab; defaults to all kinds. */
  isFor?: (kind: RunDetail["kind"]) => boolean;
};

/** Path segments of the viewers of single trajectories. */
const VIEWERS = ["/groups/", "/fragments/", "/transcript"];

/** Whether a path is that of a viewer, which takes the place of the run's facts. */
export const isViewerAt = (pathname: string): boolean => /^\/runs\/[^/]+\/(groups\/|fragments\/|transcript$)/.test(pathname);

const hasFleet = (kind: RunDetail["kind"]) => kind !== "outside";

export const TABS: Tab[] = [
  { to: "/runs/$name", label: "Overview", key: "o" },
  { to: "/runs/$name/metrics", label: "Metrics", key: "m" },
  { to: "/runs/$name/queue", label: "Queue", key: "q" },
  { to: "/runs/$name/environments", label: "Environments" },
  { to: "/runs/$name/fleet", label: "Fleet", key: "f", isFor: hasFleet },
  { to: "/runs/$name/pipeline", label: "Pipeline", key: "p" },
  { to: "/runs/$name/trajectories", label: "Trajectories", key: "t", holds: VIEWERS },
  { to: "/runs/$name/episodes", label: "Episodes", isFor: hasFleet },
  { to: "/runs/$name/curriculum", label: "Curriculum", isFor: (kind) => kind === "language" },
  { to: "/runs/$name/evaluations", label: "Evaluations", isFor: (kind) => kind === "language" },
  { to: "/runs/$name/weights", label: "Weights", key: "w" },
  { to: "/runs/$name/config", label: "Config" },
  { to: "/runs/$name/logs", label: "Logs", key: "l" },
];

/** Tabs with a shortcut; it opens the tab of the current run, or of the last opened one. */
export const KEYED_TABS = TABS.filter((tab): tab is Tab & { key: string } => tab.key !== undefined);

/** The tabs for a kind of run. */
export function tabsOf(kind: RunDetail["kind"]): Tab[] {
  return TABS.filter((tab) => tab.isFor?.(kind) ?? true);
}
