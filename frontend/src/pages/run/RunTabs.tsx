import { useViewportSize } from "@mantine/hooks";
import { Link, useLocation, useNavigate } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import type { RunDetail } from "@/api/types";
import { tabsOf } from "@/pages/run/tabs";
import { useShortcuts } from "@/shell/keyboard";
import { useCommands } from "@/shell/palette/commands";
import { remember } from "@/shell/palette/recent";

/** The tabs of a run page on one scrolling line. */
export function RunTabs({ run }: { run: RunDetail }) {
  const { pathname } = useLocation();
  const navigate = useNavigate();
  const { name } = run;
  useEffect(() => remember(`run:${name}`), [name]);
  const bar = useRef<HTMLElement>(null);
  const { width } = useViewportSize();
  // On small screens, scroll the active tab into view.
  useEffect(() => {
    const shown = bar.current?.querySelector<HTMLElement>("[aria-current=page], [data-within]");
    if (bar.current && shown) bar.current.scrollLeft = shown.offsetLeft - (bar.current.clientWidth - shown.offsetWidth) / 2;
  }, [pathname, width]);
  useCommands(
    tabsOf(run.kind).map(({ to, label, key }) => ({
      id: `tab:${name}:${label}`,
      group: "Tabs",
      title: label,
      words: `${name} ${label}`,
      note: name,
      keys: key ? ["g", key] : undefined,
      act: () => void navigate({ to, params: { name } }),
    })),
  );
  useShortcuts(
    Object.fromEntries(
      tabsOf(run.kind).flatMap(({ to, key }) => (key ? [[`g ${key}`, () => void navigate({ to, params: { name } })]] : [])),
    ),
  );
  return (
    <nav ref={bar} className="tabs" aria-label={`Tabs of ${run.name}`}>
      {tabsOf(run.kind).map(({ to, label, holds }) => (
        <Link
          key={to}
          to={to}
          params={{ name: run.name }}
          className="tab"
          data-within={holds?.some((part) => pathname.includes(part)) || undefined}
          activeOptions={{ exact: to === "/runs/$name", includeSearch: false }}
        >
          {label}
        </Link>
      ))}
    </nav>
  );
}
