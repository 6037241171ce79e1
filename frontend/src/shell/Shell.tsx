/** The frame of every page. */

import { Alert, Box, Container, Divider, NavLink, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useNavigate, useRouterState, useSearch } from "@tanstack/react-router";
import { BookOpen, type LucideIcon, ScrollText } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { whenSignedOut } from "@/api/client";
import { sessionQuery, useSession } from "@/api/session";
import { Moment, useNow } from "@/components/inline";
import { onDemand } from "@/components/onDemand";
import { ErrorState, Guarded } from "@/components/panels";
import { visible } from "@/format";
import { addressOfGuide } from "@/guide";
import { startLive, stopLive, useLiveStatus, useNotice, useOwnSession } from "@/live/live";
import { KEYED_TABS } from "@/pages/run/tabs";
import { Sharing } from "@/share/focus";
import { BrowserTab } from "@/shell/BrowserTab";
import { Header } from "@/shell/Header";
import { focusFilter, moveRow, openRow, useShortcuts } from "@/shell/keyboard";
import { AUDIT_PAGE, MAIN_PAGES, type MainPage } from "@/shell/mainPages";
import { recentRuns } from "@/shell/palette/commands";
import { usePalette } from "@/shell/palette/usePalette";
import css from "@/shell/shell.module.css";

/** The operators' notice to all users; hidden if there is none or it has expired. */
export function Notice() {
  const notice = useNotice();
  const now = useNow();
  if (!notice || (notice.until && Date.parse(notice.until) <= now)) return null;
  return (
    <Alert color="held" icon="▲" mb="md" role="status" data-notice>
      {visible(notice.text)}{" "}
      {notice.until && (
        <>
          until <Moment at={notice.until} />
        </>
      )}
    </Alert>
  );
}

/** Whether a page is the place itself, or below it and below no more specific place. */
function isWithin(path: string, place: MainPage): boolean {
  const below = (to: string) => path === to || path.startsWith(`${to}/`);
  if (place.isExact) return path === place.to;
  if (place.holds?.some(below)) return true;
  return below(place.to) && !MAIN_PAGES.some(({ to }) => to.length > place.to.length && below(to));
}

type PlaceProps = { label: string; icon: LucideIcon; active?: boolean; to?: MainPage["to"]; href?: string };

/** A link of the rail; an icon in narrow windows. */
function Place({ label, icon: Icon, active, ...address }: PlaceProps) {
  return (
    <NavLink
      {...(address.to ? { component: Link, activeOptions: { exact: true } } : {})}
      {...address}
      active={active}
      label={label}
      title={label}
      aria-label={label}
      color="quiet"
      c={active ? "var(--ink)" : "soft"}
      fw={active ? 600 : undefined}
      py={6}
      px="sm"
      bdrs="md"
      noWrap
      leftSection={<Icon size={17} strokeWidth={1.8} aria-hidden="true" />}
    />
  );
}

/** The main navigation. */
export function Rail() {
  const path = useRouterState({ select: (state) => state.location.pathname });
  const isAdmin = useSession()?.role === "admin";
  const links = (pages: MainPage[]) =>
    pages.map(({ to, label, icon, ...page }) => (
      <Place key={to} to={to} label={label} icon={icon} active={isWithin(path, { to, label, icon, ...page })} />
    ));
  return (
    <nav className={css.rail} aria-label="Main">
      {links(MAIN_PAGES.filter((page) => !page.isAdmin))}
      <Place href={addressOfGuide("README")} label="Guide" icon={BookOpen} />
      <Divider my="sm" label={<Box visibleFrom="lg">Admin</Box>} labelPosition="left" />
      {links(MAIN_PAGES.filter((page) => page.isAdmin))}
      {isAdmin && <Place href={AUDIT_PAGE} label="Audit" icon={ScrollText} />}
    </nav>
  );
}

// Loaded after the page is ready: users type as soon as it opens.
const Help = onDemand(() => import("@/shell/Help"), "Help");
const Palette = onDemand(() => import("@/shell/palette/Palette"), "Palette");
const PALETTE_AFTER_MS = 1_500;

/** Refetch the page's data when an unreachable server is back. */
function useFreshAfterAbsence(): void {
  const { mode } = useLiveStatus();
  const queries = useQueryClient();
  const known = useRef<"nothing" | "live" | "away">("nothing");
  useEffect(() => {
    if (mode === "live") {
      if (known.current === "away") void queries.invalidateQueries();
      known.current = "live";
    } else if (mode !== "lagging" && known.current === "live") {
      known.current = "away";
    }
  }, [mode, queries]);
}

const PAGE = { size: 1560, w: "100%", px: { base: "sm", sm: "lg" }, pt: { base: "md", sm: "lg" }, pb: 64 };

/** The frame of every page: session, header and keyboard shortcuts. */
export function Shell() {
  const session = useQuery(sessionQuery);
  const navigate = useNavigate();
  const opened = useSearch({ from: "/shell", select: ({ focus, looks }) => ({ focus, looks }), structuralSharing: true });
  const [help, setHelp] = useState(false);
  const palette = usePalette();
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme("dark");
  const authenticated = session.data?.authenticated;
  useFreshAfterAbsence();
  useOwnSession();
  useEffect(() => {
    const timer = setTimeout(() => void Palette.preload(), PALETTE_AFTER_MS);
    return () => clearTimeout(timer);
  }, []);
  useEffect(() => {
    document.addEventListener("click", openRow);
    return () => document.removeEventListener("click", openRow);
  }, []);

  useEffect(() => {
    const leave = () => {
      const here = location.pathname + location.search;
      if (location.pathname !== "/login") void navigate({ to: "/login", search: { next: here }, replace: true });
    };
    whenSignedOut(() => {
      stopLive();
      leave();
    });
    if (authenticated === false) leave();
    if (authenticated) startLive();
  }, [authenticated, navigate]);

  /** Open a tab of the last opened run; on a run page its own shortcuts take precedence. */
  const openLast = (to: (typeof KEYED_TABS)[number]["to"]) => {
    const name = recentRuns()[0];
    void (name ? navigate({ to, params: { name } }) : navigate({ to: "/runs" }));
  };

  useShortcuts({
    "?": () => setHelp(true),
    ...Object.fromEntries(KEYED_TABS.map(({ key, to }) => [`g ${key}`, () => openLast(to)])),
    ...Object.fromEntries(MAIN_PAGES.map(({ key, to }) => [`g ${key}`, () => void navigate({ to })])),
    "g d": () => location.assign(addressOfGuide("README")),
    "/": focusFilter,
    j: () => moveRow(1),
    k: () => moveRow(-1),
    D: () => setColorScheme(scheme === "dark" ? "light" : "dark"),
  });

  if (session.isError) {
    return (
      <Container {...PAGE} component="main" id="main">
        <ErrorState
          title="The server does not respond"
          error={session.error}
          next={<a href={addressOfGuide("operate/troubleshooting")}>Troubleshooting</a>}
          onRetry={() => void session.refetch()}
        />
      </Container>
    );
  }
  if (!authenticated) return null;
  return (
    <>
      <BrowserTab />
      <a href="#main" className={css.skip}>
        Skip to content
      </a>
      <Guarded>
        <Header onHelp={() => setHelp(true)} onPalette={palette.open} />
      </Guarded>
      <div className={css.frame}>
        <Guarded>
          <Rail />
        </Guarded>
        <Container {...PAGE} component="main" id="main">
          <Guarded>
            <Notice />
          </Guarded>
          <Sharing opened={opened}>
            <Outlet />
          </Sharing>
        </Container>
      </div>
      <Guarded>
        {palette.isOpen && (
          <Palette
            typed={palette.typed}
            onType={palette.type}
            isEntered={palette.isEntered}
            onEnter={palette.enter}
            onClose={palette.close}
          />
        )}
        {help && <Help onClose={() => setHelp(false)} />}
      </Guarded>
    </>
  );
}
