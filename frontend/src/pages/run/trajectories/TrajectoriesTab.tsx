import { Button, Paper } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { exportUrl } from "@/api/groups";
import type { RunDetail } from "@/api/types";
import { EmptyState } from "@/components/panels";
import { useRun } from "@/pages/run/RunContext";
import { Distribution } from "@/pages/run/trajectories/Distribution";
import { trainerCommand } from "@/runs/words";
import { SampleList } from "@/samples/SampleList";
import styles from "@/samples/samples.module.css";
import { type SampleKind, type SampleSearch, sampleSearch } from "@/samples/search";

const OF_FLEETS: readonly SampleKind[] = ["fragment", "episode"];
const OF_OTHERS: readonly SampleKind[] = ["group"];

/** The samples of a run: groups, or fragments and episodes of a fleet. */
export function TrajectoriesTab() {
  const { run, ledger } = useRun();
  // The address also has the parameters of the run's page.
  const search = sampleSearch(useSearch({ from: "/shell/runs/$name/trajectories" }));
  const navigate = useNavigate({ from: "/runs/$name/trajectories" });
  const isFleet = run.kind === "fleet";
  const { spread } = search;
  const change = (next: SampleSearch) => void navigate({ search: next, replace: true, resetScroll: false });
  return (
    <Paper component="section" aria-label="Samples">
      <SampleList
        search={search}
        onSearch={(next, replace) => void navigate({ search: next, replace })}
        kinds={isFleet ? OF_FLEETS : OF_OTHERS}
        run={run.name}
        arrived={(isFleet ? ledger?.fragments : ledger?.groups)?.accepted ?? 0}
        aside={
          <>
            <Button
              size="compact-sm"
              variant="default"
              aria-pressed={spread !== undefined}
              onClick={() => change({ ...search, spread: spread ? undefined : "return" })}
            >
              Distribution
            </Button>
            {!isFleet && <Exports run={run.name} search={search} />}
          </>
        }
        above={spread && <Distribution run={run} of={spread} search={search} onSearch={change} />}
        empty={<Nothing run={run} isOfEpisodes={search.kind === "episode"} />}
      />
    </Paper>
  );
}

function Exports({ run, search }: { run: string; search: SampleSearch }) {
  return (
    <span className={styles.exports}>
      <span className="faint">Export:</span>
      <a href={exportUrl(run, search, "jsonl")} download>
        JSONL
      </a>
      <a href={exportUrl(run, search, "parquet")} download>
        Parquet
      </a>
      <a href={exportUrl(run, search, "inspect")} download title="Opens in the viewer of Inspect: inspect view">
        Inspect log
      </a>
    </span>
  );
}

function Nothing({ run, isOfEpisodes }: { run: RunDetail; isOfEpisodes: boolean }) {
  if (run.kind === "fleet") {
    const title = isOfEpisodes ? "No episodes yet" : "No fragments yet";
    return (
      <EmptyState title={title} command={trainerCommand(run, location.origin)} needs={{ scope: "trainer", run: run.name }}>
        {isOfEpisodes ? "Workers report their training episodes as they end." : "Workers cut episodes into fragments of equal length."} They
        start once a trainer has published weights.
      </EmptyState>
    );
  }
  const isOutside = run.kind === "outside";
  const command = isOutside
    ? `curl -X POST ${location.origin}/atropos/${run.name}/scored_data -H "Authorization: Bearer $ROLLDECK_TOKEN" -H "Content-Type: application/json" -d '{"tokens": [[1, 2], [1, 3]], "masks": [[-100, 2], [-100, 3]], "scores": [1.0, 0.0]}'`
    : `curl -X POST ${location.origin}/api/v1/runs/${run.name}/start -H "Authorization: Bearer $ROLLDECK_TOKEN"`;
  return (
    <EmptyState title="No samples yet" command={command} needs={{ scope: isOutside ? "env" : "user", run: run.name }}>
      Shows every sequence group of the run: messages, tokens, masks, scores and its state.
    </EmptyState>
  );
}
