/** Express a page's data as an API request, for curl and Python. Pure. */

import type { paths } from "@/api/schema";
import { queryOf, trajectorySearch } from "@/pages/trajectories/search";

/** API paths with a GET operation. */
type Read = { [path in keyof paths]: paths[path] extends { get: object } ? path : never }[keyof paths];
type Search = Record<string, unknown>;
type Asked = { path: Read; query?: (search: Search) => Record<string, string> };
export type Request = { path: string; query: Record<string, string> };

/** Map URL parameters of a page to API parameters. */
const passing =
  (names: Record<string, string>) =>
  (search: Search): Record<string, string> =>
    Object.fromEntries(
      Object.entries(names).flatMap(([ours, theirs]) => {
        const value = search[ours];
        return typeof value === "string" || typeof value === "number" ? [[theirs, String(value)]] : [];
      }),
    );

const PASSED = Object.fromEntries(
  ["kind", "q", "runs", "environment", "score_min", "score_max", "since", "until", "sort"].map((name) => [name, name]),
);
const PAGES: Record<string, Asked> = {
  "/": { path: "/api/v1/runs" },
  "/runs": { path: "/api/v1/runs", query: passing({ q: "q", sort: "sort" }) },
  "/projects": { path: "/api/v1/projects" },
  "/trajectories": {
    path: "/api/v1/trajectories",
    query: (search) => passing(PASSED)(queryOf(trajectorySearch(search))),
  },
  "/compare": { path: "/api/v1/prompts", query: passing({ runs: "runs" }) },
  "/alerts": { path: "/api/v1/alerts" },
  "/environments": { path: "/api/v1/environments", query: passing({ q: "q", kind: "kind" }) },
  "/cluster": { path: "/api/v1/cluster" },
  "/tokens": { path: "/api/v1/tokens" },
  "/audit": {
    path: "/api/v1/audit",
    query: passing({ text: "text", actor: "actor", run: "run", kind: "kind", request: "request", people: "people" }),
  },
  "/settings": { path: "/api/v1/server/retention" },
  "/runs/new": { path: "/api/v1/run-config-schema" },
};
const METRICS = passing({ m: "names", x: "x", from: "from", to: "to" });
const RUN: Record<string, Asked> = {
  "": { path: "/api/v1/runs/{run}" },
  metrics: { path: "/api/v1/runs/{run}/metrics/keys" },
  queue: { path: "/api/v1/runs/{run}/queue" },
  environments: { path: "/api/v1/runs/{run}/environments" },
  fleet: { path: "/api/v1/runs/{run}/fleet" },
  pipeline: { path: "/api/v1/runs/{run}/pipeline" },
  trajectories: { path: "/api/v1/runs/{run}/groups" },
  episodes: { path: "/api/v1/runs/{run}/episodes" },
  curriculum: { path: "/api/v1/runs/{run}/lessons" },
  evaluations: { path: "/api/v1/runs/{run}/evaluations" },
  weights: { path: "/api/v1/runs/{run}/weights" },
  config: { path: "/api/v1/runs/{run}" },
  logs: { path: "/api/v1/runs/{run}/events" },
  transcript: { path: "/api/v1/runs/{run}/episodes/detail", query: passing({ episode: "episode" }) },
};
const OF_RUN = /^\/runs\/([^/]+)(?:\/(.*))?$/;
const OF_PROJECT = /^\/projects\/([^/]+)$/;
const ONE: [RegExp, Read, string][] = [
  [/^groups\/(\d+)$/, "/api/v1/runs/{run}/groups/{group}", "{group}"],
  [/^fragments\/(\d+)$/, "/api/v1/runs/{run}/fragments/{fragment}", "{fragment}"],
];

function ofRun(run: string, tab: string, search: Search): Request | null {
  for (const [form, path, name] of ONE) {
    const found = form.exec(tab);
    if (found?.[1]) return { path: path.replace("{run}", run).replace(name, found[1]), query: {} };
  }
  // Charts are requested by name; without a name, all names are listed.
  const { names, ...range } = tab === "metrics" ? METRICS(search) : ({} as Record<string, string>);
  if (names) return { path: `/api/v1/runs/${run}/metrics/lines`, query: { names, ...range } };
  const asked = RUN[tab];
  return asked ? { path: asked.path.replace("{run}", run), query: asked.query?.(search) ?? {} } : null;
}

/** The API request of a page; null if it corresponds to no single request. */
export function requestOf(pathname: string, search: Search): Request | null {
  const place = pathname === "/" ? "/" : pathname.replace(/\/+$/, "");
  const asked = PAGES[place];
  if (asked) {
    const query = asked.query?.(search) ?? {};
    return place === "/compare" && !query.runs ? null : { path: asked.path, query };
  }
  const [, project] = OF_PROJECT.exec(place) ?? [];
  if (project) return { path: `/api/v1/projects/${project}`, query: {} };
  const [, run, tab = ""] = OF_RUN.exec(place) ?? [];
  return run ? ofRun(run, tab, search) : null;
}

function addressOf({ path, query }: Request): string {
  const asked = new URLSearchParams(query).toString();
  return asked ? `${path}?${asked}` : path;
}

/** A curl command. */
export function curlOf(request: Request, origin: string): string {
  return `curl -H "Authorization: Bearer $ROLLDECK_TOKEN" '${origin}${addressOf(request).replaceAll("'", "%27")}'`;
}

/** A Python script with the standard library only. */
export function pythonOf(request: Request, origin: string): string {
  return [
    "import json, os, urllib.request",
    "",
    `request = urllib.request.Request(${JSON.stringify(origin + addressOf(request))})`,
    `request.add_header("Authorization", "Bearer " + os.environ["ROLLDECK_TOKEN"])`,
    "with urllib.request.urlopen(request) as answer:",
    "    print(json.dumps(json.load(answer), indent=2))",
  ].join("\n");
}
