import { Paper } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { LossOfRuns } from "@/components/DataLoss";
import { EmptyState, PageTitle } from "@/components/panels";
import { SampleList } from "@/samples/SampleList";
import { KINDS } from "@/samples/search";

/** The samples of all runs. */
export function TrajectoriesPage() {
  const search = useSearch({ from: "/shell/trajectories" });
  const navigate = useNavigate({ from: "/trajectories" });
  return (
    <>
      <PageTitle title="Samples" />

      <LossOfRuns />
      <Paper component="section" aria-label="Found samples">
        <SampleList
          search={search}
          onSearch={(next, replace) => void navigate({ search: next, replace })}
          kinds={KINDS}
          empty={
            <EmptyState title="No samples yet" command="make demo">
              Shows the groups, episodes and fragments of all runs.
            </EmptyState>
          }
        />
      </Paper>
    </>
  );
}
