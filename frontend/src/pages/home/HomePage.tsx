import { Button } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useAlertSummary } from "@/api/alerts";
import { NEWEST, runActivityQuery, runsQuery } from "@/api/runLists";
import { useMayOperate, useSession } from "@/api/session";
import { DataLoss } from "@/components/DataLoss";
import { ErrorState } from "@/components/ErrorState";
import { useNow } from "@/components/now";
import { Guarded } from "@/components/Panels";
import { Skeletons } from "@/components/Skeletons";
import { useLiveRuns } from "@/live/deployment";
import { useTopicError } from "@/live/live";
import { Attention } from "@/pages/home/Attention";
import { concerns, inAll, mineFirst } from "@/pages/home/attention";
import { Finished, RunCards } from "@/pages/home/RunCards";
import { ServerPanels } from "@/pages/home/ServerPanels";
import { Start } from "@/pages/home/Start";
import { shownRuns, unknownIds } from "@/pages/runs/rows";
import css from "./home.module.css";

const ACTIVE = "is:active";
const LATELY_OVER = "is:over changed<7d";
const FINISHED_AT_MOST = 6;
const OVER = new Set(["completed", "stopped", "failed"]);

/** The home page: alerts, active runs and recently finished runs. */
export function HomePage() {
  const session = useSession();
  const mayOperate = useMayOperate();
  const now = useNow();
  const summary = useAlertSummary();
  const live = useLiveRuns();
  const active = useInfiniteQuery(runsQuery(ACTIVE, "-changed"));
  const over = useInfiniteQuery(runsQuery(LATELY_OVER, "-changed"));
  const underWay = active.data?.pages.flatMap(({ results }) => results) ?? [];
  const ended = (over.data?.pages[0]?.results ?? []).slice(0, FINISHED_AT_MOST);
  const activity = useQuery(runActivityQuery([...unknownIds(underWay, live), ...ended.map(({ id }) => id)]));
  const alertsError = useTopicError("alerts");
  // Alerts that are shown late would move the runs.
  const isKnown = active.data !== undefined && over.data !== undefined && (summary !== undefined || alertsError !== null);
  const hasFailed = active.isError || activity.isError;
  const isQuiet = isKnown && underWay.length === 0 && ended.length === 0;
  const all = useInfiniteQuery({ ...runsQuery("", NEWEST), enabled: isQuiet });
  const hasNone = isQuiet && all.data?.pages[0]?.total === 0;
  const error = active.error ?? over.error;

  const runs = mineFirst(
    shownRuns(underWay, live, activity.data ?? {}, hasFailed).filter(({ status }) => !OVER.has(status)),
    session?.username,
  );
  const finished = shownRuns(ended, live, activity.data ?? {}, over.isError).filter(({ status }) => OVER.has(status));
  return (
    <>
      <div className="page-title">
        <h1>Home</h1>
        <span className="spacer" />
        {mayOperate && !hasNone && (
          <Button component={Link} to="/runs/new">
            Launch a run
          </Button>
        )}
      </div>
      {error && <ErrorState title="Runs unavailable" error={error} onRetry={() => void active.refetch()} />}
      {!isKnown && !error && <Skeletons heights={[60, 220, 180]} />}
      {isKnown && (
        <div className={css.page}>
          <Guarded>
            <DataLoss alerts={summary?.groups ?? []} />
            {!hasNone && <Attention summary={summary} concerns={concerns(runs, summary?.groups ?? [], now)} />}
            {hasNone && <Start />}
            {runs.length > 0 && (
              <RunCards
                runs={runs}
                inAll={inAll({ shown: runs.length, read: underWay.length, total: active.data?.pages[0]?.total ?? 0 })}
                me={session?.username}
              />
            )}
            {runs.length === 0 && !hasNone && (
              <p className="soft">
                No active runs. <Link to="/runs">All runs</Link>
              </p>
            )}
            <Finished runs={finished} />
            {!hasNone && <ServerPanels />}
          </Guarded>
        </div>
      )}
    </>
  );
}
