import { Button } from "@mantine/core";
import type { RunDetail } from "@/api/types";
import { AppLink } from "@/components/AppLink";
import { EmptyState } from "@/components/EmptyState";
import { Panel } from "@/components/Panel";
import { Skeletons } from "@/components/Skeletons";
import { trainerCommand } from "@/runs/words";

/** Why no lessons are shown: the run has none, or has not started. */
export function NoLessons({ run, isKnown }: { run: RunDetail; isKnown: boolean }) {
  if (run.kind !== "language") {
    return (
      <Panel title="Lessons" className="span-12">
        <EmptyState
          title="This run has no lessons"
          action={
            <Button component={AppLink} to="/runs/new?preset=curriculum" variant="default">
              Launch a run with lessons
            </Button>
          }
        >
          Only language runs have lessons; this is {run.kind === "outside" ? "an outside" : "a fleet"} run.
        </EmptyState>
      </Panel>
    );
  }
  if (!isKnown)
    return (
      <div className="span-12">
        <Skeletons heights={[220]} />
      </div>
    );
  return (
    <Panel title="Lessons" className="span-12">
      <EmptyState
        title="Lessons not started"
        guide="howto/lessons"
        command={trainerCommand(run, location.origin)}
        needs={{ scope: "trainer", run: run.name }}
      >
        Sampling is tracked from the first start, evaluations from the first published version.
      </EmptyState>
    </Panel>
  );
}
