import { Button, Group, Paper, VisuallyHidden } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, Navigate, Outlet, useLocation, useParams } from "@tanstack/react-router";
import { type ReactNode, useMemo } from "react";
import { runOpenAlertsQuery, useAlertSummary, useAlertsRefresh } from "@/api/alerts";
import { useAsk } from "@/api/runs";
import { ReadOnlyContext } from "@/api/session";
import { useIsProven } from "@/components/chips";
import { DataLoss, isLoss } from "@/components/DataLoss";
import { AppLink } from "@/components/inline";
import { EmptyState, ErrorState, Guarded, Skeletons } from "@/components/panels";
import { visible } from "@/format";
import { usePart, useTopicError } from "@/live/live";
import { ArchivedBanner } from "@/pages/run/ArchivedBanner";
import { RunContext, useRun, useRunPart } from "@/pages/run/RunContext";
import { RunHeader } from "@/pages/run/RunHeader";
import { RunTabs } from "@/pages/run/RunTabs";
import { isViewerAt } from "@/pages/run/tabs";
import { newer } from "@/pages/run/verbs";

function Missing({ name, error }: { name: string; error: { code: string; detail: string } }) {
  if (error.code !== "not_found")
    return <ErrorState title="Run unavailable" error={error.detail} next={<Link to="/runs">All runs</Link>} />;
  return (
    <Paper>
      <VisuallyHidden component="h1">{visible(name)}</VisuallyHidden>
      <EmptyState
        title={`No run named ${visible(name)}`}
        action={
          <Group gap="xs" justify="center">
            <Button component={Link} to="/runs" variant="default">
              All runs
            </Button>
            <Button component={AppLink} to={`/runs?q=${encodeURIComponent(`is:archived ${name}`)}`} variant="default">
              Search archived runs
            </Button>
          </Group>
        }
      >
        Check the name, or search the archived runs.
      </EmptyState>
    </Paper>
  );
}

/** Mark the figures of a tab while they are not confirmed; the clock renders this element alone each second. */
function Proven({ children }: { children: ReactNode }) {
  const isProven = useIsProven(useRun().run, useRunPart("fleet")?.confirmed_at);
  return <div data-unproven={!isProven || undefined}>{children}</div>;
}

/** The loss of data of this run, read only while the live summary names the run; alerts of the run on its tabs are refreshed here. */
function RunLosses({ run }: { run: string }) {
  const isLosing = useAlertSummary()?.groups.some((group) => isLoss(group) && group.runs.includes(run)) ?? false;
  useAlertsRefresh(run);
  const { data } = useQuery({ ...runOpenAlertsQuery(run), enabled: isLosing });
  return isLosing && data ? <DataLoss alerts={data} /> : null;
}

function LiveRun({ name }: { name: string }) {
  const topic = `run:${name}` as const;
  const part = usePart(topic, "run");
  const shown = part ?? undefined;
  const error = useTopicError(topic);
  const isViewer = useLocation({ select: ({ pathname }) => isViewerAt(pathname) });
  const ask = useAsk(name);
  const run = newer(shown, ask.data);
  // Links and requests need the address; for a current run that is its name.
  const open = useMemo(() => run && { run: { ...run, name }, ask }, [run, name, ask]);

  // The part is null once the run is deleted.
  if (part === null) return <Missing name={name} error={{ code: "run_deleted", detail: `Run ${name} was deleted.` }} />;
  if (!run || !open) return error ? <Missing name={name} error={error} /> : <Skeletons heights={[64, 44, 76, 330]} />;
  // Unarchived: the name is the run's address again.
  if (!run.archived_at && run.name !== name) return <Navigate to="/runs/$name" params={{ name: run.name }} replace />;
  return (
    <ReadOnlyContext value={run.archived_at !== null}>
      <RunContext value={open}>
        <Guarded>
          <RunHeader title={run.name} isCompact={isViewer} />
          <ReadOnlyContext value={false}>
            {run.archived_at && <ArchivedBanner name={run.name} archivedAt={run.archived_at} />}
          </ReadOnlyContext>
          <RunTabs run={open.run} />
          {!run.archived_at && <RunLosses run={run.name} />}
        </Guarded>
        <Proven>
          <Outlet />
        </Proven>
      </RunContext>
    </ReadOnlyContext>
  );
}

export function RunPage() {
  const { name } = useParams({ from: "/shell/runs/$name" });
  // Remount per run, so that no state carries over.
  return <LiveRun key={name} name={name} />;
}
