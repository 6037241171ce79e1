/** The command palette. */

import { Box, Kbd, Modal, NavLink, Text, TextInput, VisuallyHidden } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Search } from "lucide-react";
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { projectChoicesQuery } from "@/api/projects";
import { foundRunsQuery } from "@/api/runs";
import { term } from "@/components/filter/suggest";
import { counted, visible } from "@/format";
import { addressOfGuide } from "@/guide";
import { AUDIT_PAGE, MAIN_PAGES } from "@/shell/mainPages";
import { type Command, offered, recentRuns } from "@/shell/palette/commands";

/** The order of the groups while nothing is typed. */
export const GROUPS: Command["group"][] = ["This page", "Tabs", "Go to", "Projects", "Runs"];

const starts = (title: string, word: string) =>
  title.startsWith(word) ? 0 : title.split(/[\s\-_./:&(]+/).some((part) => part.startsWith(word)) ? 1 : 2;

/** The commands with every typed word in title or further words; those whose title begins with the first word come first. */
export function ranked(commands: Command[], typed: string): Command[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return GROUPS.flatMap((group) => commands.filter((command) => command.group === group));
  const place = ({ title }: Command) => starts(title.toLowerCase(), words[0] ?? "");
  return commands
    .filter(({ title, words: more = "" }) => words.every((word) => `${title} ${more}`.toLowerCase().includes(word)))
    .sort((a, b) => place(a) - place(b) || a.title.length - b.title.length);
}

/** Pages of the server beside the dashboard. */
const BESIDE = [
  { title: "Admin", words: "django tables", to: "/admin/" },
  { title: "Audit", words: "changes history log", to: AUDIT_PAGE },
  { title: "Guide", words: "documentation help", to: addressOfGuide("README") },
  { title: "API reference", words: "docs openapi swagger", to: "/docs" },
];

/** All available commands: of the open page, and jumps to pages, projects and runs; runs are searched on the server. */
export function usePaletteCommands(typed: string): { commands: Command[]; isLooking: boolean } {
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
        id: `project:${name}`,
        group: "Projects",
        title: name,
        note: title,
        act: () => void navigate({ to: "/runs", search: { q: term("project", name) } }),
      }),
    ),
    ...[...names].map(
      (name): Command => ({
        id: `run:${name}`,
        group: "Runs",
        title: name,
        note: statuses.get(name),
        act: () => void navigate({ to: "/runs/$name", params: { name } }),
      }),
    ),
  ];
  return { commands, isLooking: runs.isFetching || projects.isPending };
}

const SHOWN_AT_MOST = 80;
const TYPED_MS = 120;

type Props = {
  typed: string;
  onType: (text: string) => void;
  /** Enter was pressed before the search had ended. */
  isEntered: boolean;
  onEnter: () => void;
  onClose: (then?: () => void) => void;
};

type OptionProps = { command: Command; id: string; isActive: boolean; aside: string; onHover: () => void; onPick: () => void };

function Option({ command, id, isActive, aside, onHover, onPick }: OptionProps) {
  const row = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (isActive) row.current?.scrollIntoView({ block: "nearest" });
  }, [isActive]);
  return (
    <NavLink
      ref={row}
      id={id}
      component="div"
      role="option"
      tabIndex={-1}
      bdrs="md"
      aria-selected={isActive}
      active={isActive}
      color="quiet"
      c="var(--ink)"
      label={visible(command.title)}
      description={command.note && visible(command.note)}
      rightSection={command.keys ? <Kbd size="xs">{command.keys.join(" ")}</Kbd> : <Text size="xs">{aside}</Text>}
      onMouseMove={onHover}
      onClick={onPick}
    />
  );
}

/** The command palette: type, select, Enter. */
export function Palette({ typed, onType, isEntered, onEnter, onClose }: Props) {
  const [active, setActive] = useState(0);
  const [asked] = useDebouncedValue(typed.trim(), TYPED_MS);
  const id = useId();
  const { commands, isLooking } = usePaletteCommands(asked);
  const shown = ranked(commands, typed).slice(0, SHOWN_AT_MOST);
  const at = Math.min(active, shown.length - 1);

  const pick = (command: Command | undefined) => command && onClose(command.act);
  useEffect(() => {
    if (isEntered && !isLooking && asked === typed.trim()) pick(shown[at]);
  });
  const press = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) setActive(shown.length > 0 ? (at + by + shown.length) % shown.length : 0);
    else if (event.key === "Enter") shown.length > 0 ? pick(shown[at]) : onEnter();
    else return;
    event.preventDefault();
  };
  // With text, the best match is first, whatever its group.
  const sections = typed.trim()
    ? [{ heading: "", rows: shown }]
    : GROUPS.map((group) => ({ heading: group, rows: shown.filter((command) => command.group === group) })).filter(
        ({ rows }) => rows.length > 0,
      );
  return (
    <Modal.Root
      opened
      onClose={() => onClose()}
      returnFocus={false}
      yOffset="12vh"
      size={620}
      padding={0}
      transitionProps={{ duration: 0 }}
    >
      <Modal.Overlay />
      <Modal.Content aria-label="Command palette">
        <TextInput
          variant="unstyled"
          size="lg"
          px="md"
          leftSection={<Search size={18} aria-hidden="true" />}
          role="combobox"
          aria-label="Search pages, runs, tabs and commands"
          aria-expanded="true"
          aria-controls={`${id}-list`}
          aria-activedescendant={shown.length > 0 ? `${id}-${at}` : undefined}
          aria-autocomplete="list"
          placeholder="Search pages, runs, tabs and commands"
          autoComplete="off"
          spellCheck={false}
          data-autofocus
          data-palette
          value={typed}
          onKeyDown={press}
          onChange={(event) => {
            onType(event.currentTarget.value);
            setActive(0);
          }}
        />
        <Box id={`${id}-list`} role="listbox" aria-label="Results" mah="min(24rem, 56dvh)" p="xs" style={{ overflowY: "auto" }}>
          {sections.map(({ heading, rows }) => (
            <div key={heading} role={heading ? "group" : "presentation"} aria-label={heading || undefined}>
              <Text size="xs" c="dimmed" px="sm" pt={heading && "xs"} aria-hidden="true">
                {heading}
              </Text>
              {rows.map((command) => {
                const place = shown.indexOf(command);
                return (
                  <Option
                    key={command.id}
                    command={command}
                    id={`${id}-${place}`}
                    isActive={place === at}
                    aside={heading ? "" : command.group}
                    onHover={() => place !== at && setActive(place)}
                    onPick={() => pick(command)}
                  />
                );
              })}
            </div>
          ))}
        </Box>
        {shown.length === 0 && (
          <Text c="dimmed" px="md" pb="md" style={{ overflowWrap: "anywhere" }}>
            {isLooking ? "Searching runs…" : `No matches for “${visible(typed)}”.`}
          </Text>
        )}
        <VisuallyHidden role="status">{shown.length === 0 ? "No matches" : counted(shown.length, "result")}</VisuallyHidden>
      </Modal.Content>
    </Modal.Root>
  );
}
