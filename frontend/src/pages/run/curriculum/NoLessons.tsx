import { Button } from "@mantine/core";
import type { RunDetail } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { Panel } from "@/components/Panel";
import { PlaceLink } from "@/components/PlaceLink";
import { Skeletons } from "@/components/Skeletons";
import { trainerCommand } from "@/pages/run/words";

/** Why there is nothing about lessons: this run has none, or has not begun with them. */
export function NoLessons({ run, isKnown }: { run: RunDetail; isKnown: boolean }) {
  if (run.kind !== "language") {
    return (
      <Panel title="Lessons" className="span-12">
        <EmptyState
          title="This run has no lessons"
          action={
            <Button component={PlaceLink} to="/runs/new?preset=curriculum" variant="default">
              Launch one that has
            </Button>
          }
        >
          Only language runs are taught lesson by lesson; this is {run.kind === "outside" ? "an outside" : "a fleet"} run.
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
        title="Its lessons have not begun"
        command={trainerCommand(run, location.origin)}
        needs={{ scope: "trainer", run: run.name }}
      >
        They are counted from the first start on, and evaluated from the first version that a trainer publishes.
      </EmptyState>
    </Panel>
  );
}
