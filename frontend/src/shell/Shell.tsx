/** The frame of every page. */

import { useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useNavigate, useRouterState, useSearch } from "@tanstack/react-router";
import { BookOpen, ScrollText } from "lucide-react";
import { Fragment, useEffect, useRef, useState } from "react";
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
    <p className={css.notice} role="status" data-notice>
      <span aria-hidden="true">▲</span> <span className="anywhere">{visible(notice.text)}</span>{" "}
      {notice.until && (
        <>
          until <Moment at={notice.until} />
        </>
      )}
    </p>
  );
}

/** Whether a page is the place itself, or below it and below no more specific place. */
function isWithin(path: string, place: MainPage): boolean {
  const below = (to: string) => path === to || path.startsWith(`${to}/`);
  if (place.isExact) return path === place.to;
  if (place.holds?.some(below)) return true;
  return below(place.to) && !MAIN_PAGES.some(({ to }) => to.length > place.to.length && below(to));
}

/** The main navigation. */
export function Rail() {
  const path = useRouterState({ select: (state) => state.location.pathname });
  const isAdmin = useSession()?.role === "admin";
  return (
    <nav className={css.rail} aria-label="Main">
      {MAIN_PAGES.map((place, index) => (
        <Fragment key={place.to}>
          {place.isAdmin && !MAIN_PAGES[index - 1]?.isAdmin && (
            <>
              <a href={addressOfGuide("README")} className={css.railLink} title="Guide">
                <BookOpen size={17} strokeWidth={1.8} aria-hidden="true" />
                <span>Guide</span>
              </a>
              <p className={css.railHeading}>Admin</p>
            </>
          )}
          <Link to={place.to} className={css.railLink} data-within={isWithin(path, place) || undefined} title={place.label}>
            <place.icon size={17} strokeWidth={1.8} aria-hidden="true" />
            <span>{place.label}</span>
          </Link>
        </Fragment>
      ))}
      {isAdmin && (
        <a href={AUDIT_PAGE} className={css.railLink} title="Audit">
          <ScrollText size={17} strokeWidth={1.8} aria-hidden="true" />
          <span>Audit</span>
        </a>
      )}
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
      <main className="page" id="main">
        <ErrorState
          title="The server does not respond"
          error={session.error}
          next={<a href={addressOfGuide("operate/troubleshooting")}>Troubleshooting</a>}
          onRetry={() => void session.refetch()}
        />
      </main>
    );
  }
  if (!authenticated) return null;
  return (
    <>
      <BrowserTab />
      <a href="#main" className="skip">
        Skip to content
      </a>
      <Guarded>
        <Header onHelp={() => setHelp(true)} onPalette={palette.open} />
      </Guarded>
      <div className={css.frame}>
        <Guarded>
          <Rail />
        </Guarded>
        <main className="page" id="main">
          <Guarded>
            <Notice />
          </Guarded>
          <Sharing opened={opened}>
            <Outlet />
          </Sharing>
        </main>
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
