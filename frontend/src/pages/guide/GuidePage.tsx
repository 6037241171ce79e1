import { useQuery } from "@tanstack/react-query";
import { useLocation } from "@tanstack/react-router";
import { useEffect } from "react";
import { AppLink } from "@/components/AppLink";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { Skeletons } from "@/components/Skeletons";
import { CONTENTS } from "./contents";
import { loaderOf } from "./docs";
import css from "./guide.module.css";
import { Page } from "./Page";
import { addressOf } from "./places";

/** All pages of the docs, in the order of their index. */
function Contents({ page }: { page: string }) {
  return (
    <nav className={css.contents} aria-label="Guide">
      {CONTENTS.map(({ heading, pages }) => (
        <section key={heading}>
          <p className={css.heading}>{heading}</p>
          <ul>
            {pages.map((one) => (
              <li key={one.page}>
                <AppLink to={addressOf(one.page)} aria-current={one.page === page ? "page" : undefined}>
                  {one.title}
                </AppLink>
              </li>
            ))}
          </ul>
        </section>
      ))}
    </nav>
  );
}

/** Move to the anchor of the address once the page is drawn, and to the top of another page. */
function useAnchor(page: string, hash: string, isDrawn: boolean): void {
  useEffect(() => {
    if (!isDrawn) return;
    const target = hash ? document.getElementById(hash) : null;
    if (target) target.scrollIntoView();
    else if (!hash) window.scrollTo(0, 0);
  }, [page, hash, isDrawn]);
}

function Shown({ page }: { page: string }) {
  const load = loaderOf(page);
  const { data, error, refetch } = useQuery({
    queryKey: ["guide", page],
    queryFn: () => load?.() ?? null,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const hash = useLocation({ select: (location) => location.hash });
  useAnchor(page, hash, Boolean(data));
  if (error) {
    return (
      <>
        <h1>Guide</h1>
        <ErrorState title="Page unavailable" error={error} onRetry={() => void refetch()} />
      </>
    );
  }
  if (data) return <Page name={page} text={data} />;
  if (load) return <Skeletons heights={[40, 260, 260]} />;
  return (
    <>
      <h1 className="unseen">Page not found</h1>
      <EmptyState title="Page not found" action={<AppLink to={addressOf("")}>All pages of the guide</AppLink>}>
        The guide has no page “{page}”.
      </EmptyState>
    </>
  );
}

/** The docs, as they were when the dashboard was built; they need no connection to the internet. */
export function GuidePage() {
  const page = useLocation({ select: ({ pathname }) => pathname.replace(/^\/guide\/?/, "").replace(/\/$/, "") });
  return (
    <div className={css.guide}>
      <div className={css.text}>
        {page && (
          <nav className="crumbs narrow-only" aria-label="Breadcrumb">
            <AppLink to={addressOf("")}>Guide</AppLink>
          </nav>
        )}
        <Shown key={page} page={page} />
      </div>
      <Contents page={page} />
    </div>
  );
}
