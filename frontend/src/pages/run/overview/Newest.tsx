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
  // Nothing came in, or it is not known yet.
  return <p className="faint small">{newest ? "Nothing came in yet." : "Asking for the newest…"}</p>;
}

/** The last few things that came in, to see at a glance what is trained on. */
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
          All of them
        </Button>
      }
      className="span-12"
    >
      <Rows run={run.name} newest={newest} />
    </Panel>
  );
}
