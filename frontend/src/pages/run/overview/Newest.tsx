import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { NewestTrajectories, RunDetail } from "@/api/types";
import { Panel } from "@/components/panels";
import { usePart } from "@/live/live";
import { SampleTable } from "@/samples/SampleTable";

function Rows({ newest }: { newest: NewestTrajectories | null | undefined }) {
  const [first] = newest?.samples ?? [];
  if (newest && first) return <SampleTable samples={newest.samples} kind={first.kind} />;
  // No data received, or still loading.
  return <p className="faint small">{newest ? "No data received yet." : "Loading…"}</p>;
}

/** The last few groups or fragments of the run. */
export default function Newest({ run }: { run: RunDetail }) {
  const newest = usePart(`run:${run.name}`, "newest");
  return (
    <Panel
      title="Newest trajectories"
      note={run.kind === "fleet" ? "fragments" : "groups"}
      aside={
        <Button
          size="compact-sm"
          variant="default"
          renderRoot={(props) => <Link to="/runs/$name/trajectories" params={{ name: run.name }} {...props} />}
        >
          View all
        </Button>
      }
    >
      <Rows newest={newest} />
    </Panel>
  );
}
