import { Button, TextInput } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMayOperate } from "@/api/session";
import type { RunRow } from "@/api/types";
import { Age } from "@/components/Age";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { RunChip } from "@/components/RunChip";
import { count, number, policyStep } from "@/format";
import { usePart, useTopicError } from "@/live/live";
import { environmentOf, matches } from "@/pages/runFilter";
import { Skeletons } from "@/components/Skeletons";

function RunLine({ run }: { run: RunRow }) {
  return (
    <tr className="opens">
      <td className="wide-only">
        <RunChip run={run} observedAt={run.observed_at} />
      </td>
      <td>
        <Link to="/runs/$name" params={{ name: run.name }} className="strong">
          {run.name}
        </Link>
        {run.is_default && <span className="faint tiny"> · default</span>}
        <div className="narrow-only">
          <RunChip run={run} observedAt={run.observed_at} />
        </div>
      </td>
      <td className="soft wide-only anywhere">{environmentOf(run)}</td>
      <td className="num">
        {number(run.served_steps)}
        {run.num_steps > 0 && <span className="faint wide-only"> / {count(run.num_steps)}</span>}
      </td>
      <td className="num wide-only">{policyStep(run.policy_step)}</td>
      <td className="num">{number(run.return_mean)}</td>
      <td className="num wide-only">{count(run.queued)}</td>
      <td className="num wide-only">{number(run.workers)}</td>
      <td className="num soft wide-only">
        <Age at={run.created_at} />
      </td>
    </tr>
  );
}

function RunsTable({ runs }: { runs: RunRow[] }) {
  return (
    <div className="panel table-scroll">
      <table className="table">
        <caption className="unseen">Runs, newest first</caption>
        <thead>
          <tr>
            <th scope="col" className="wide-only">State</th>
            <th scope="col">Name</th>
            <th scope="col" className="wide-only">Environment</th>
            <th scope="col" className="num" title="Batches served of those planned">Train step</th>
            <th scope="col" className="num wide-only" title="Newest published weights">Policy</th>
            <th scope="col" className="num" title="Mean return of the last 20 episodes">Return</th>
            <th scope="col" className="num wide-only" title="Items waiting to be trained on">Queue</th>
            <th scope="col" className="num wide-only">Workers</th>
            <th scope="col" className="num wide-only">Age</th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <RunLine key={run.id} run={run} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function RunsPage() {
  const runs = usePart<RunRow[]>("runs", "runs");
  const error = useTopicError("runs");
  const { q = "" } = useSearch({ from: "/shell/runs" });
  const navigate = useNavigate({ from: "/runs" });
  const mayOperate = useMayOperate();
  const shown = (runs ?? []).filter((run) => matches(run, q));
  const launch = mayOperate && (
    <Button component={Link} to="/runs/new">
      Launch a run
    </Button>
  );
  return (
    <>
      <div className="page-title">
        <h1>Runs</h1>
        <TextInput
          data-filter
          aria-label="Filter runs by name, state or environment"
          placeholder="Filter: name, state:running …"
          value={q}
          size="sm"
          w={{ base: "100%", sm: 280 }}
          onChange={(event) => {
            const text = event.currentTarget.value;
            void navigate({ search: text ? { q: text } : {}, replace: true });
          }}
        />
        <span className="spacer" />
        {runs && runs.length > 0 && launch}
      </div>
      {error && !runs && <ErrorState title="The list cannot be shown" error={error.detail} />}
      {!runs && !error && <Skeletons heights={[220]} />}
      {runs && runs.length === 0 && (
        <div className="panel">
          <EmptyState title="No runs yet" command="make demo" action={launch}>
            A run is one training run: its fleet or its environments, its queue and its trainer. Launch one here, start
            the demo, or point an Atropos environment at this deck.
          </EmptyState>
        </div>
      )}
      {runs && runs.length > 0 && shown.length === 0 && (
        <div className="panel">
          <EmptyState title="No run matches">
            {runs.length} {runs.length === 1 ? "run is" : "runs are"} hidden by the filter.
          </EmptyState>
        </div>
      )}
      {shown.length > 0 && <RunsTable runs={shown} />}
    </>
  );
}
