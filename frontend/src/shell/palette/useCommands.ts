import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { projectChoicesQuery } from "@/api/projects";
import { foundRunsQuery } from "@/api/runLists";
import { term } from "@/components/filter/suggest";
import { addressOfGuide } from "@/guide";
import { AUDIT_PAGE, MAIN_PAGES } from "@/shell/mainPages";
import { type Command, offered } from "@/shell/palette/commands";
import { recentRuns } from "@/shell/palette/recent";

/** Pages of the server beside the dashboard. */
const BESIDE = [
  { title: "Admin", words: "django tables", to: "/admin/" },
  { title: "Audit", words: "changes history log", to: AUDIT_PAGE },
  { title: "Guide", words: "documentation help", to: addressOfGuide("README") },
  { title: "API reference", words: "docs openapi swagger", to: "/docs" },
];

/** All available commands: of the open page, and jumps to pages, projects and runs; runs are searched on the server. */
export function useCommands(typed: string): { commands: Command[]; isLooking: boolean } {
  const navigate = useNavigate();
  const runs = useQuery(foundRunsQuery(typed));
  const projects = useQuery(projectChoicesQuery);
  const pages = [
    ...MAIN_PAGES.map(({ to, label, key }) => ({ id: to, title: label, keys: ["g", key], act: () => void navigate({ to }) })),
    ...BESIDE.map(({ title, words, to }) => ({ id: to, title, words, act: () => location.assign(to) })),
  ];
  const statuses = new Map<string, string>((runs.data ?? []).map((run) => [run.name, run.status]));
  const names = new Set([...recentRuns(), ...statuses.keys()]);
  const commands: Command[] = [
    ...offered(),
    ...pages.map((page): Command => ({ ...page, group: "Go to" })),
    ...(projects.data ?? []).map(
      ({ name, title }): Command => ({
        ...{ id: `project:${name}`, group: "Projects", title: name, note: title },
        act: () => void navigate({ to: "/runs", search: { q: term("project", name) } }),
      }),
    ),
    ...[...names].map(
      (name): Command => ({
        ...{ id: `run:${name}`, group: "Runs", title: name, note: statuses.get(name) },
        act: () => void navigate({ to: "/runs/$name", params: { name } }),
      }),
    ),
  ];
  return { commands, isLooking: runs.isFetching || projects.isPending };
}
