import { Button, Group, Paper } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { exportUrl } from "@/api/groups";
import type { RunDetail } from "@/api/types";
import { EmptyState } from "@/components/panels";
import { useRun, useRunPart } from "@/pages/run/RunContext";
import { Distribution } from "@/pages/run/trajectories/Distribution";
import { trainerCommand } from "@/runs/words";
import { SampleList } from "@/samples/SampleList";
import { type SampleKind, type SampleSearch, sampleSearch } from "@/samples/search";

const OF_FLEETS: readonly SampleKind[] = ["fragment", "episode"];
const OF_OTHERS: readonly SampleKind[] = ["group"];

/** The samples of a run: groups, or fragments and episodes of a fleet. */
export function TrajectoriesTab() {
  const { run } = useRun();
  const ledger = useRunPart("ledger");
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
              variant={spread ? "light" : "default"}
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

const FORMS = [
  ["jsonl", "JSONL", undefined],
  ["parquet", "Parquet", undefined],
  ["inspect", "Inspect log", "Opens in the viewer of Inspect: inspect view"],
] as const;

const Exports = ({ run, search }: { run: string; search: SampleSearch }) => (
  <Group gap="xs" className="tiny">
    <span className="faint">Export:</span>
    {FORMS.map(([form, label, title]) => (
      <a key={form} href={exportUrl(run, search, form)} download title={title}>
        {label}
      </a>
    ))}
  </Group>
);

function Nothing({ run: { kind, name }, run, isOfEpisodes }: { run: RunDetail; isOfEpisodes: boolean }) {
  if (kind === "fleet") {
    const command = trainerCommand(run, location.origin);
    return (
      <EmptyState title={`No ${isOfEpisodes ? "episodes" : "fragments"} yet`} command={command} needs={{ scope: "trainer", run: name }}>
        Workers start once a trainer has published weights. They cut episodes into fragments of equal length, and report each episode as it
        ends.
      </EmptyState>
    );
  }
  const isOutside = kind === "outside";
  const command = isOutside
    ? `curl -X POST ${location.origin}/atropos/${name}/scored_data -H "Authorization: Bearer $ROLLDECK_TOKEN" -H "Content-Type: application/json" -d '{"tokens": [[1, 2], [1, 3]], "masks": [[-100, 2], [-100, 3]], "scores": [1.0, 0.0]}'`
    : `curl -X POST ${location.origin}/api/v1/runs/${name}/start -H "Authorization: Bearer $ROLLDECK_TOKEN"`;
  return (
    <EmptyState title="No samples yet" command={command} needs={{ scope: isOutside ? "env" : "user", run: name }}>
      Shows every sequence group of the run: messages, tokens, masks, scores and its state.
    </EmptyState>
  );
}
