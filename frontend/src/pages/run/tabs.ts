/** The parts of a run's page, in the order in which they are asked for. */

import type { LinkProps } from "@tanstack/react-router";
import type { RunDetail } from "@/api/types";

export type Tab = {
  to: NonNullable<LinkProps["to"]>;
  label: string;
  /** Pressed after `g`; none of the letters of the places. */
  key?: string;
  /** Parts of the addresses of pages that are reached through this one. */
  holds?: string[];
  /** Whether a run of this kind has such a part; all have it when not said. */
  isFor?: (kind: RunDetail["kind"]) => boolean;
};

const hasFleet = (kind: RunDetail["kind"]) => kind !== "outside";

export const TABS: Tab[] = [
  { to: "/runs/$name", label: "Overview", key: "o" },
  { to: "/runs/$name/metrics", label: "Metrics", key: "m" },
  { to: "/runs/$name/queue", label: "Queue", key: "q" },
  { to: "/runs/$name/environments", label: "Environments" },
  { to: "/runs/$name/fleet", label: "Fleet", key: "f", isFor: hasFleet },
  { to: "/runs/$name/pipeline", label: "Pipeline", key: "p" },
  { to: "/runs/$name/trajectories", label: "Trajectories", key: "t", holds: ["/groups/", "/fragments/"] },
  { to: "/runs/$name/episodes", label: "Episodes", isFor: hasFleet },
  { to: "/runs/$name/curriculum", label: "Curriculum", isFor: (kind) => kind === "language" },
  { to: "/runs/$name/evaluations", label: "Evaluations", isFor: (kind) => kind === "language" },
  { to: "/runs/$name/weights", label: "Weights", key: "w" },
  { to: "/runs/$name/config", label: "Config" },
  { to: "/runs/$name/logs", label: "Logs", key: "l" },
];

/** The tabs that a key leads to: of the run that is open, or else of the one that was opened last. */
export const KEYED_TABS = TABS.filter((tab): tab is Tab & { key: string } => tab.key !== undefined);

/** The tabs that a run of a kind has. */
export function tabsOf(kind: RunDetail["kind"]): Tab[] {
  return TABS.filter((tab) => tab.isFor?.(kind) ?? true);
}
