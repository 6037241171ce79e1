import { Link, useLocation } from "@tanstack/react-router";
import type { RunDetail } from "@/api/types";
import { tabsOf } from "@/pages/run/tabs";

/** The parts of the run's page, one line that scrolls where it does not fit. */
export function RunTabs({ run }: { run: RunDetail }) {
  const { pathname } = useLocation();
  return (
    <nav className="tabs" aria-label={`Parts of ${run.name}`}>
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
