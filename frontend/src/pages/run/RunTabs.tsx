import { useViewportSize } from "@mantine/hooks";
import { Link, useLocation, useNavigate } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import type { RunDetail } from "@/api/types";
import runCss from "@/pages/run/run.module.css";
import { isAt, type Tab, tabGroupsOf, tabsOf } from "@/pages/run/tabs";
import { useShortcuts } from "@/shell/keyboard";
import { remember, useCommands } from "@/shell/palette/commands";

/** The tabs of a run page, and the pages of the open tab, each on one scrolling line. */
export function RunTabs({ run }: { run: RunDetail }) {
  const { pathname } = useLocation();
  const navigate = useNavigate();
  const { name } = run;
  useEffect(() => remember(name), [name]);
  const bar = useRef<HTMLElement>(null);
  const { width } = useViewportSize();
  // On small screens, scroll the active tab into view.
  useEffect(() => {
    const shown = bar.current?.querySelector<HTMLElement>("[aria-current=page], [data-within]");
    if (bar.current && shown) bar.current.scrollLeft = shown.offsetLeft - (bar.current.clientWidth - shown.offsetWidth) / 2;
  }, [pathname, width]);
  const tabs = tabsOf(run.kind).map((tab) => ({ ...tab, act: () => void navigate({ to: tab.to, params: { name } }) }));
  useCommands(
    tabs.map(({ label, key, act }) => ({
      id: `tab:${name}:${label}`,
      group: "Tabs",
      title: label,
      words: `${name} ${label}`,
      note: name,
      act,
      keys: key ? ["g", key] : undefined,
    })),
  );
  useShortcuts(Object.fromEntries(tabs.flatMap(({ key, act }) => (key ? [[`g ${key}`, act]] : []))));
  const groups = tabGroupsOf(run.kind);
  const opened = groups.find(({ pages }) => pages.some((tab) => isAt(tab, pathname)));
  const link = ({ to }: Tab, label: string, isWithin: boolean) => (
    <Link
      key={to}
      to={to}
      params={{ name }}
      className={runCss.tab}
      data-within={isWithin || undefined}
      activeOptions={{ exact: true, includeSearch: false }}
    >
      {label}
    </Link>
  );
  return (
    <div className={runCss.tabs}>
      <nav ref={bar} className={runCss.tabLine} aria-label={`Tabs of ${name}`}>
        {groups.map(({ label, pages: [first] }) => link(first, label, opened?.pages[0] === first))}
      </nav>
      {opened && opened.pages.length > 1 && (
        <nav className={`${runCss.tabLine} ${runCss.subtabs}`} aria-label={opened.label}>
          {opened.pages.map((tab) => link(tab, tab.label, isAt(tab, pathname)))}
        </nav>
      )}
    </div>
  );
}
