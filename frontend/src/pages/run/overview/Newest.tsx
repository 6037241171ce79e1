import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { NewestTrajectories, RunDetail } from "@/api/types";
import { Panel } from "@/components/Panel";
import { usePart } from "@/live/live";
import { FragmentTable } from "@/pages/run/trajectories/FragmentTable";
import { GroupTable } from "@/pages/run/trajectories/GroupTable";

function Rows({ run, newest }: { run: string; newest: NewestTrajectories | null | undefined }) {
  if (newest?.fragments.length) return <FragmentTable run={run} rows={newest.fragments} query={{}} />;
  if (newest?.groups.length) return <GroupTable run={run} groups={newest.groups} query={{}} />;
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
      className="span-12"
    >
      <Rows run={run.name} newest={newest} />
    </Panel>
  );
}
