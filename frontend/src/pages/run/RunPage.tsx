import "@/pages/run/run.css";
import { Button } from "@mantine/core";
import { Link, Outlet, useParams } from "@tanstack/react-router";
import { useAsk } from "@/api/runs";
import type { CurriculumPart, EpisodeRow, FleetPart, LedgerPart, QueuePart, RunDetail, RunEvent } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { Skeletons } from "@/components/Skeletons";
import { usePart, useSeries, useTopicAt, useTopicError } from "@/live/live";
import { usePast } from "@/live/past";
import { RunContext } from "@/pages/run/RunContext";
import { RunHeader } from "@/pages/run/RunHeader";
import { RunTabs } from "@/pages/run/RunTabs";
import { useHistory } from "@/pages/run/overview/history";
import { newer } from "@/pages/run/verbs";

function Missing({ name, error }: { name: string; error: { code: string; detail: string } }) {
  if (error.code !== "not_found") return <ErrorState title="This run cannot be shown" error={error.detail} />;
  return (
    <div className="panel">
      <h1 className="unseen">{name}</h1>
      <EmptyState
        title={`There is no run called ${name}`}
        action={
          <Button component={Link} to="/runs" variant="default">
            All runs
          </Button>
        }
      >
        It may have been archived by a reset; the admin still knows it.
      </EmptyState>
    </div>
  );
}

function LiveRun({ name }: { name: string }) {
  const topic = `run:${name}`;
  const shown = usePart<RunDetail>(topic, "run");
  const fleet = usePart<FleetPart>(topic, "fleet");
  const queue = usePart<QueuePart>(topic, "queue");
  const ledger = usePart<LedgerPart>(topic, "ledger");
  const curriculum = usePart<CurriculumPart | null>(topic, "curriculum");
  const episodes = useSeries<EpisodeRow>(topic, "episodes");
  const events = useSeries<RunEvent>(topic, "events");
  const at = useTopicAt(topic);
  const error = useTopicError(topic);
  const ask = useAsk(name);
  usePast(name, topic, shown !== undefined);
  const run = newer(shown, ask.data);
  const workers = fleet?.workers ?? [];
  const speed = workers.length > 0 ? workers.reduce((sum, worker) => sum + worker.env_steps_per_second, 0) : null;
  const histories = {
    queue: useHistory(queue, at, [queue?.queued_sequences ?? queue?.queued ?? null, queue?.threshold || null]),
    speed: useHistory(fleet, at, [speed]),
  };

  if (!run) return error ? <Missing name={name} error={error} /> : <Skeletons heights={[64, 44, 76, 330]} />;
  return (
    <RunContext value={{ run, fleet, queue, ledger, curriculum, episodes, events, at, speed, histories, ask }}>
      <RunHeader run={run} fleet={fleet} queue={queue} ask={ask} />
      <RunTabs run={run} />
      <Outlet />
    </RunContext>
  );
}

export function RunPage() {
  const { name } = useParams({ from: "/shell/runs/$name" });
  // A page for each run: nothing of one is shown under the name of another.
  return <LiveRun key={name} name={name} />;
}
