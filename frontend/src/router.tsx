/** The routes of the dashboard; most pages are loaded on demand. */

import { Container, Paper, VisuallyHidden } from "@mantine/core";
import { createRootRoute, createRoute, createRouter, Link, redirect } from "@tanstack/react-router";
import { page } from "@/components/onDemand";
import { EmptyState, FailedPage, Skeletons } from "@/components/panels";
import { alertsSearch } from "@/pages/alerts/search";
import { pageCode, tabCode } from "@/pages/code";
import { ENVIRONMENT_KINDS, type EnvironmentKind } from "@/pages/environments/api";
import { LoginPage } from "@/pages/LoginPage";
import { logsSearch } from "@/pages/run/logs/search";
import { queueSearch } from "@/pages/run/queue/search";
import { viewerSearch } from "@/pages/viewer/search";
import { runsSearch } from "@/runs/search";
import { sampleSearch } from "@/samples/search";
import { shareSearch } from "@/share/share";
import { Shell } from "@/shell/Shell";
import { viewSearch } from "@/wall/view";

const text = (value: unknown): string | undefined => (typeof value === "string" || typeof value === "number" ? String(value) : undefined);

const oneOf = <T extends string>(value: unknown, ...known: T[]): T | undefined => known.find((each) => each === value);

const whole = (value: unknown): number | undefined => (Number.isInteger(value) && (value as number) >= 0 ? (value as number) : undefined);

const lessonSearch = (search: Record<string, unknown>): { lesson?: string; evaluation?: string } => ({
  lesson: text(search.lesson),
  evaluation: text(search.evaluation),
});
const root = createRootRoute({ notFoundComponent: PageNotFound });

const login = createRoute({
  getParentRoute: () => root,
  path: "/login",
  component: LoginPage,
  validateSearch: (search): { next?: string } => ({ next: text(search.next) }),
});
const shell = createRoute({ getParentRoute: () => root, id: "shell", component: Shell, validateSearch: shareSearch });
const home = createRoute({
  getParentRoute: () => shell,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/runs", replace: true });
  },
});
const runs = createRoute({
  getParentRoute: () => shell,
  path: "/runs",
  component: page(pageCode.runs, "RunsPage"),
  validateSearch: runsSearch,
});
const trajectories = createRoute({
  getParentRoute: () => shell,
  path: "/trajectories",
  component: page(pageCode.trajectories, "TrajectoriesPage"),
  validateSearch: sampleSearch,
});
const alerts = createRoute({
  getParentRoute: () => shell,
  path: "/alerts",
  component: page(pageCode.alerts, "AlertsPage"),
  validateSearch: alertsSearch,
});
const compare = createRoute({
  getParentRoute: () => shell,
  path: "/compare",
  component: page(pageCode.compare, "ComparePage"),
  validateSearch: viewSearch,
});
const tokens = createRoute({ getParentRoute: () => shell, path: "/tokens", component: page(pageCode.tokens, "TokensPage") });
const environments = createRoute({
  getParentRoute: () => shell,
  path: "/environments",
  component: page(pageCode.environments, "EnvironmentsPage"),
  validateSearch: (search): { q?: string; kind?: EnvironmentKind; of?: EnvironmentKind; name?: string } => ({
    q: text(search.q),
    kind: oneOf(search.kind, ...ENVIRONMENT_KINDS),
    of: oneOf(search.of, ...ENVIRONMENT_KINDS),
    name: text(search.name),
  }),
});
const cluster = createRoute({ getParentRoute: () => shell, path: "/cluster", component: page(pageCode.cluster, "ClusterPage") });
const settings = createRoute({ getParentRoute: () => shell, path: "/settings", component: page(pageCode.settings, "SettingsPage") });
const launch = createRoute({
  getParentRoute: () => shell,
  path: "/runs/new",
  component: page(pageCode.launch, "LaunchPage"),
  validateSearch: (search): { from?: string; preset?: string; project?: string } => ({
    from: text(search.from),
    project: text(search.project),
    preset: text(search.preset),
  }),
});
const run = createRoute({
  getParentRoute: () => shell,
  path: "/runs/$name",
  component: page(pageCode.run, "RunPage"),
});
const runTabs = [
  createRoute({
    getParentRoute: () => run,
    path: "/",
    component: page(tabCode.overview, "OverviewTab"),
    validateSearch: viewSearch,
  }),
  createRoute({
    getParentRoute: () => run,
    path: "metrics",
    component: page(tabCode.metrics, "MetricsTab"),
    validateSearch: viewSearch,
  }),
  createRoute({ getParentRoute: () => run, path: "queue", component: page(tabCode.queue, "QueueTab"), validateSearch: queueSearch }),
  createRoute({
    getParentRoute: () => run,
    path: "fleet",
    component: page(tabCode.fleet, "FleetTab"),
    validateSearch: (search): { worker?: number } => ({ worker: whole(search.worker) }),
  }),
  createRoute({
    getParentRoute: () => run,
    path: "curriculum",
    component: page(tabCode.curriculum, "CurriculumTab"),
    validateSearch: lessonSearch,
  }),
  createRoute({
    getParentRoute: () => run,
    path: "trajectories",
    component: page(tabCode.trajectories, "TrajectoriesTab"),
    validateSearch: sampleSearch,
  }),
  createRoute({
    getParentRoute: () => run,
    path: "groups/$group",
    component: page(tabCode.groups, "ViewerPage"),
    validateSearch: viewerSearch,
  }),
  createRoute({
    getParentRoute: () => run,
    path: "transcript",
    component: page(tabCode.transcript, "EpisodePage"),
    validateSearch: (search): { episode: string; step?: number } => ({ episode: text(search.episode) ?? "", step: whole(search.step) }),
  }),
  createRoute({
    getParentRoute: () => run,
    path: "fragments/$fragment",
    component: page(tabCode.fragments, "FragmentPage"),
    validateSearch: (search): { step?: number; episode?: string } => ({
      step: whole(search.step),
      // The router parses "17" as a number.
      episode: search.episode === undefined ? undefined : String(search.episode).slice(0, 64),
    }),
  }),
  createRoute({ getParentRoute: () => run, path: "environments", component: page(tabCode.environments, "EnvironmentsTab") }),
  createRoute({
    getParentRoute: () => run,
    path: "weights",
    component: page(tabCode.weights, "WeightsTab"),
    validateSearch: (search): { version?: number } => ({ version: Number(search.version) || undefined }),
  }),
  createRoute({
    getParentRoute: () => run,
    path: "config",
    component: page(tabCode.config, "ConfigTab"),
  }),
  createRoute({ getParentRoute: () => run, path: "logs", component: page(tabCode.logs, "LogsTab"), validateSearch: logsSearch }),
] as const;

function NotFound() {
  return (
    <Paper>
      <VisuallyHidden component="h1">Page not found</VisuallyHidden>
      <EmptyState title="Page not found" action={<Link to="/runs">All runs</Link>}>
        Check the address, or go to the list of runs.
      </EmptyState>
    </Paper>
  );
}

/** The same without the page frame. */
function PageNotFound() {
  return (
    <Container component="main" py="lg">
      <NotFound />
    </Container>
  );
}

export const router = createRouter({
  routeTree: root.addChildren([
    login,
    shell.addChildren([
      home,
      runs,
      trajectories,
      compare,
      alerts,
      environments,
      cluster,
      tokens,
      settings,
      launch,
      run.addChildren(runTabs),
    ]),
  ]),
  defaultNotFoundComponent: NotFound,
  defaultErrorComponent: FailedPage,
  defaultPreload: "intent",
  defaultPendingComponent: () => <Skeletons heights={[64, 330, 230]} />,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
