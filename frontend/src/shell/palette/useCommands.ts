import { useMantineColorScheme } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useRouter } from "@tanstack/react-router";
import { projectChoicesQuery } from "@/api/projects";
import { foundRunsQuery } from "@/api/runLists";
import { useSignOut } from "@/api/session";
import { viewLink } from "@/share/link";
import { AUDIT_PAGE, MAIN_PAGES } from "@/shell/mainPages";
import { type Command, offered } from "@/shell/palette/commands";
import { recentRuns } from "@/shell/palette/recent";

const THEMES = [
  ["light", "Light theme", "bright day"],
  ["dark", "Dark theme", "night"],
  ["auto", "System theme", "automatic light dark"],
] as const;

type Callbacks = { onHelp: () => void; onCopied: (text: string, what: string) => void };

/** All available commands; runs are searched on the server. */
export function useCommands(typed: string, { onHelp, onCopied }: Callbacks): { commands: Command[]; isLooking: boolean } {
  const navigate = useNavigate();
  const router = useRouter();
  const signOut = useSignOut();
  const { setColorScheme } = useMantineColorScheme();
  const runs = useQuery(foundRunsQuery(typed));
  const projects = useQuery(projectChoicesQuery);

  const toRun = (name: string) => void navigate({ to: "/runs/$name", params: { name } });
  const places = MAIN_PAGES.map(
    ({ to, label, key }): Command => ({
      id: `place:${to}`,
      group: "Go to",
      title: label,
      keys: ["g", key],
      act: () => void navigate({ to }),
    }),
  );
  const grouped = (projects.data ?? []).map(
    ({ name, title }): Command => ({
      id: `project:${name}`,
      group: "Projects",
      title: name,
      note: title,
      act: () => void navigate({ to: "/projects/$project", params: { project: name } }),
    }),
  );
  const known = new Map<string, string>((runs.data ?? []).map((run) => [run.name, run.status]));
  for (const name of recentRuns()) if (!known.has(name)) known.set(name, "");
  const named = [...known].map(
    ([name, status]): Command => ({
      id: `run:${name}`,
      group: "Runs",
      title: name,
      note: status,
      act: () => toRun(name),
    }),
  );
  const general: Command[] = [
    ...THEMES.map(
      ([value, title, words]): Command => ({ id: `theme:${value}`, group: "General", title, words, act: () => setColorScheme(value) }),
    ),
    {
      id: "general:copy",
      group: "General",
      title: "Copy link to this page",
      words: "share address url",
      act: () => onCopied(viewLink(router), "Link"),
    },
    { id: "general:keys", group: "General", title: "Keyboard shortcuts", words: "help shortcuts keys", keys: ["?"], act: onHelp },
    { id: "general:docs", group: "General", title: "API reference", words: "docs openapi swagger", act: () => location.assign("/docs") },
    { id: "general:admin", group: "General", title: "Admin", words: "django tables", act: () => location.assign("/admin/") },
    { id: "general:audit", group: "General", title: "Audit", words: "changes history log", act: () => location.assign(AUDIT_PAGE) },
    { id: "general:out", group: "General", title: "Sign out", words: "log out leave", act: () => signOut.mutate() },
  ];
  return {
    commands: [...offered(), ...places, ...grouped, ...named, ...general],
    isLooking: runs.isFetching || projects.isPending,
  };
}
