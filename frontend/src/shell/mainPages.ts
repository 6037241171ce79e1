/** The main pages, shared by the rail, the menu of small screens and the shortcuts. */

import type { LinkProps } from "@tanstack/react-router";
import { Bell, Boxes, KeyRound, type LucideIcon, Plus, Rows3, SearchCode, Server, Settings } from "lucide-react";

export type MainPage = {
  to: NonNullable<LinkProps["to"]>;
  label: string;
  icon: LucideIcon;
  /** Pressed after `g`. */
  key: string;
  /** URL prefixes of pages below this place. */
  holds?: string[];
  /** Matches only the page itself, not those below it. */
  isExact?: boolean;
  /** Whether the page is below the heading *Admin*. */
  isAdmin?: boolean;
};

export const MAIN_PAGES: MainPage[] = [
  { to: "/runs", label: "Runs", icon: Rows3, key: "r", holds: ["/compare"] },
  { to: "/trajectories", label: "Samples", icon: SearchCode, key: "x" },
  { to: "/runs/new", label: "Launch", icon: Plus, key: "n", isExact: true },
  { to: "/alerts", label: "Alerts", icon: Bell, key: "a" },
  { to: "/environments", label: "Environments", icon: Boxes, key: "e" },
  { to: "/cluster", label: "Cluster", icon: Server, key: "c", isAdmin: true },
  { to: "/tokens", label: "API & tokens", icon: KeyRound, key: "k", isAdmin: true },
  { to: "/settings", label: "Settings", icon: Settings, key: "s", isAdmin: true },
];

/** The audit log: the list of events in the admin of the server. */
export const AUDIT_PAGE = "/admin/runs/runevent/";
