import { Link, useRouterState } from "@tanstack/react-router";
import { BookOpen, ScrollText } from "lucide-react";
import { Fragment } from "react";
import { useSession } from "@/api/session";
import { addressOfGuide } from "@/guide";
import { AUDIT_PAGE, MAIN_PAGES, type MainPage } from "@/shell/mainPages";
import css from "@/shell/shell.module.css";

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
