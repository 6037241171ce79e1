/** Code chunks of each page: loaded by the router, or early for the initial URL before the router exists. */

import { runAt } from "@/shell/addresses";

export const pageCode = {
  runs: () => import("@/pages/runs/RunsPage"),
  alerts: () => import("@/pages/alerts/AlertsPage"),
  compare: () => import("@/pages/compare/ComparePage"),
  tokens: () => import("@/pages/tokens/TokensPage"),
  environments: () => import("@/pages/environments/EnvironmentsPage"),
  cluster: () => import("@/pages/cluster/ClusterPage"),
  settings: () => import("@/pages/settings/SettingsPage"),
  trajectories: () => import("@/pages/trajectories/TrajectoriesPage"),
  launch: () => import("@/pages/launch/LaunchPage"),
  run: () => import("@/pages/run/RunPage"),
};

/** Tabs of a run page, by the first path segment after the run's name. */
export const tabCode = {
  overview: () => import("@/pages/run/overview/OverviewTab"),
  metrics: () => import("@/pages/run/metrics/MetricsTab"),
  queue: () => import("@/pages/run/queue/QueueTab"),
  fleet: () => import("@/pages/run/fleet/FleetTab"),
  episodes: () => import("@/pages/run/episodes/EpisodesTab"),
  curriculum: () => import("@/pages/run/curriculum/CurriculumTab"),
  trajectories: () => import("@/pages/run/trajectories/TrajectoriesTab"),
  groups: () => import("@/pages/viewer/ViewerPage"),
  transcript: () => import("@/pages/viewer/EpisodePage"),
  fragments: () => import("@/pages/viewer/FragmentPage"),
  environments: () => import("@/pages/run/environments/EnvironmentsTab"),
  weights: () => import("@/pages/run/weights/WeightsTab"),
  config: () => import("@/pages/run/config/ConfigTab"),
  logs: () => import("@/pages/run/logs/LogsTab"),
};

type Code = () => Promise<unknown>;

const named = (code: Record<string, Code>, name: string): Code[] => (Object.hasOwn(code, name) ? [code[name] as Code] : []);

/** All code chunks of the page at a path; empty for an unknown page. */
export function codeAt(pathname: string): Code[] {
  const about = runAt(pathname);
  if (about) return [pageCode.run, ...named(tabCode, about.tab.split("/")[0] || "overview")];
  if (/^\/runs\/new\/?$/.test(pathname)) return [pageCode.launch];
  return named(pageCode, pathname.split("/")[1] || "runs");
}
